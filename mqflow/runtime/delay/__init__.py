"""Stages delayed messages, and delivers them when their delay is over.

Must not import `mqflow.runtime.listener` or `mqflow.app`.
"""
