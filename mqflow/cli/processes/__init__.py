"""The processes that commands start: queue managers, standbys and workers. This folder has no command.

Must not import `click`, `mqflow.app.handlers` or `mqflow.journal`.
"""
