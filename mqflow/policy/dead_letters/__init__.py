"""Decisions of the DLQ handler: rules tables, the choice of a rule, and the next message to read.

Must not import `mqflow.verbs`, `datetime` or `time`.
"""
