"""The commands that put, get, browse, move and explain messages.

Must not import `mqflow.embedded.storage`, `mqflow.embedded.wire`, `mqflow.journal` or `mqflow.pipeline`.
"""
