"""The command line. It starts in `mqflow.cli.main`, which imports the module of a command only when that command runs.

No module here imports `sqlite3`.
"""
