"""Stages delayed messages, and delivers them when their delay is over.

No module here imports `mqflow.runtime.listener` or `mqflow.app`.
"""
