"""Decisions of the DLQ handler: rules tables, the choice of a rule, and the next message to read.

No module here imports `mqflow.verbs`, `datetime` or `time`.
"""
