"""Selectors (message selection strings): lexer, parser and evaluation. This package knows no queue.

No module here imports `mqflow.verbs` or `mqflow.mqi.attributes`.
"""
