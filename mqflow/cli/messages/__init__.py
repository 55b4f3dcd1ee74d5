"""Commands that put, get, browse and move messages."""
