"""Decisions about a lost connection: whether, when and where to connect again, and which objects to open again.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
