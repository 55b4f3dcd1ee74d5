"""The storage of a queue manager: the contract between its state and a store, the SQLite store, its folder and its locks.

Knows changes, rows and files. Decides nothing of MQ.
"""
