"""Status, metrics, probes and control sockets of running applications, and the orders of operators to them.

Must not import `mqflow.embedded`, `mqflow.journal` or `sqlite3`.
"""
