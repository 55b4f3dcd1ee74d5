"""Listeners: their workers, units of work, and the move of poison messages.

No module here imports `mqflow.app`, `mqflow.embedded` or `mqflow.bindings`.
"""
