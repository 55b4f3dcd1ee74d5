"""Decisions about a lost connection: whether, when and where to connect again, and what to open there.

Must not import `mqflow.verbs`, `time` or `random`.
"""
