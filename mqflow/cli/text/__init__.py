"""The texts that commands print and read: tables, messages in words, exit codes.

No module here imports `mqflow.verbs`, `mqflow.runtime.connection`, `mqflow.embedded` or `mqflow.bindings`.
"""
