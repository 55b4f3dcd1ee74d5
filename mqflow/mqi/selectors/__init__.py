"""Selectors (message selection strings): lexer, parser and evaluation. This package knows no queue.

Must not import `mqflow.verbs` or `mqflow.mqi.attributes`.
"""
