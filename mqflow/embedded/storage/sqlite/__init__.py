"""Stores the changes of a queue manager in one SQLite file. It knows SQL and pages, but no thread and no caller.

No module here imports `mqflow.embedded.state` or `threading`.
"""
