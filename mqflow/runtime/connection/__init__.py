"""Sessions: connections whose verbs can be awaited. Also their recovery after an outage, and the objects to open again.

No module here imports `mqflow.runtime.listener` or `mqflow.app`.
"""
