"""The processes that commands start: queue managers, standbys and workers. This folder has no command.

No module here imports `click`, `mqflow.app.handlers` or `mqflow.journal`.
"""
