"""The commands that create, start, stop, define and examine queue managers.

No module here imports `mqflow.journal`, `mqflow.pipeline` or `mqflow.app.run`.
"""
