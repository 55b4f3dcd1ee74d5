"""Status, metrics, probes and control sockets of running applications, and the orders that operators give to them.

No module here imports `mqflow.embedded`, `mqflow.journal` or `sqlite3`.
"""
