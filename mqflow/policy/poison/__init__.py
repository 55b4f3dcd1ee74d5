"""Decisions about a message that failed: deliver again, move or discard; and the headers of the moved message.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
