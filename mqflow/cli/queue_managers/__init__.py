"""The commands that create, start, stop, define and examine queue managers.

Must not import `mqflow.journal`, `mqflow.pipeline` or `mqflow.app.run`.
"""
