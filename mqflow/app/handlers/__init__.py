"""Handlers: their signatures, codecs, messages and contexts, and the messages that they put.

No module here imports `mqflow.embedded`, `mqflow.bindings`, `mqflow.app.run` or `mqflow.app.channels`.
"""
