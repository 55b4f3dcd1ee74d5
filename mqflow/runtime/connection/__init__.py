"""Sessions: a connection with awaitable verbs, its recovery after an outage, and the objects to open again.

Must not import `mqflow.runtime.listener` or `mqflow.app`.
"""
