"""Decisions about the health of an application: which workers are stuck, and whether the application is alive and ready.

No module here imports `mqflow.verbs`, `time` or `random`.
"""
