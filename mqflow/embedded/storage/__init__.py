"""The storage of a queue manager: the contract between its state and a store, the SQLite store, its folder and its locks.

This folder knows changes, rows and files. It contains no rule of MQ.
"""
