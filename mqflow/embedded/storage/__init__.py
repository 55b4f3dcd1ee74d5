"""The storage of a queue manager: the contract between its state and a store, the durable store, its folder and its locks.

This folder knows changes and files; `sqlite` keeps the changes. This folder contains no rule of MQ.

No module here imports `mqflow.embedded.state`, `mqflow.embedded.rules` or `mqflow.embedded.calls`.
"""
