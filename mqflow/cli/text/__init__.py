"""The text that commands print and read: tables, messages in words, exit codes.

Must not import `mqflow.verbs`, `mqflow.runtime.connection`, `mqflow.embedded` or `mqflow.bindings`.
"""
