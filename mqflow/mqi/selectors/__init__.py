"""Selectors (message selection strings): lexer, parser and evaluation. Knows no queue."""
