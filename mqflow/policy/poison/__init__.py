"""Decisions about a message whose handling failed: deliver it again, move it or discard it. Also builds the moved message.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
