"""The commands that create, start, stop, define and examine queue managers."""
