"""The command `mqflow dlq`: checks and runs rules tables for dead-letter queues.

No module here imports `mqflow.embedded` or `mqflow.bindings`.
"""
