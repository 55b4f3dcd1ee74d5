"""Decisions about a message that failed: deliver again, move or discard; and the headers of the moved message.

Must not import `mqflow.verbs`, `time` or `random`.
"""
