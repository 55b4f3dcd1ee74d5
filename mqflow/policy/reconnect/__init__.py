"""Decisions about a lost connection: whether, when and where to connect again, and what to open there.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
