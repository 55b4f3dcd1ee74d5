"""Sessions: a connection with awaitable verbs, its recovery after an outage, and the objects to open again.

No module here imports `mqflow.runtime.listener` or `mqflow.app`.
"""
