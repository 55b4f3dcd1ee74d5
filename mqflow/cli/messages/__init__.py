"""The commands that put, get, browse, move and explain messages.

No module here imports `mqflow.embedded.storage`, `mqflow.embedded.wire`, `mqflow.journal` or `mqflow.pipeline`.
"""
