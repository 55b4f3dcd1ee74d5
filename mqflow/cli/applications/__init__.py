"""The commands that run, explain and create applications.

Must not import `mqflow.pipeline`, `mqflow.journal` or `mqflow.landing`.
"""
