"""The storage of a queue manager: the interface between its state and a store, the durable store, its folder and its locks.

This package knows changes and files; `sqlite` stores the changes. It has no rule of MQ.

No module here imports `mqflow.embedded.state`, `mqflow.embedded.rules` or `mqflow.embedded.calls`.
"""
