"""Decisions of the DLQ handler: what its rules say about a message, and which message to read next.

No module here imports `mqflow.verbs`, `datetime` or `time`.
"""
