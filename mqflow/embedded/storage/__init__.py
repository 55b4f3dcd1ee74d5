"""Where a queue manager is kept: the contract between its state machine and a store, the SQLite store, its folder and locks.

Knows changes, rows and files; decides nothing of MQ.
"""
