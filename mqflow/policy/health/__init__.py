"""Decisions about the health of an application: which worker is stuck, and whether it is alive and ready.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
