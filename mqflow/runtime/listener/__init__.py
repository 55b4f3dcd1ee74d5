"""Listeners: their workers, units of work, and the move of poison messages. Listeners know no codec and no signature.

No module here imports `mqflow.app`, `mqflow.embedded` or `mqflow.bindings`.
"""
