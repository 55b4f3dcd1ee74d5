"""The DLQ handler, its service in an application, and redrive.

No module here imports `mqflow.runtime.listener` or `mqflow.app`.
"""
