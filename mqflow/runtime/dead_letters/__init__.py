"""The DLQ handler, its service in an application, and redrive.

Must not import `mqflow.runtime.listener` or `mqflow.app`.
"""
