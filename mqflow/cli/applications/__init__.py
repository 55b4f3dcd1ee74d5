"""The commands that run, explain and create applications.

No module here imports `mqflow.pipeline`, `mqflow.journal` or `mqflow.landing`.
"""
