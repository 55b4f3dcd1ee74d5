"""The text that commands print and read: tables, messages in words, exit codes."""
