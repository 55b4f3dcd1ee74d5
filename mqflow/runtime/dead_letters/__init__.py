"""The DLQ handler, the service that runs it in an application, and redrive: putting messages back on their old queues.

No module here imports `mqflow.runtime.listener` or `mqflow.app`.
"""
