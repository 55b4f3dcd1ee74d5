"""The command `mqflow dlq`: checks and runs rules tables for dead-letter queues.

Must not import `mqflow.embedded` or `mqflow.bindings`.
"""
