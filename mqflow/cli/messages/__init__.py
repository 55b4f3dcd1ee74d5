"""The commands that put, get, browse, move and explain messages."""
