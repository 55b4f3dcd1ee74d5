"""Selectors (message selection strings): lexer, parser and evaluation. This package knows no queue."""
