"""The storage of a queue manager: the contract between its state and a store, the durable store, its folder and its locks.

This folder knows changes and files; `sqlite` keeps the changes. This folder contains no rule of MQ.

Must not import `mqflow.embedded.state`, `mqflow.embedded.rules` or `mqflow.embedded.calls`.
"""
