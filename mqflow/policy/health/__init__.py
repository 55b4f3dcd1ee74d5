"""Decisions about the health of an application: which worker is stuck, and whether it is alive and ready.

Must not import `mqflow.verbs`, `time` or `random`.
"""
