"""The command line. `mqflow.cli.main` is the entry; it imports the module of a command when that command runs.

No module here imports `sqlite3`.
"""
