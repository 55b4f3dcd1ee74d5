"""The processes that commands start: queue managers, standbys and workers. This folder contains no command.

No module here imports `click`, `mqflow.app.handlers` or `mqflow.journal`.
"""
