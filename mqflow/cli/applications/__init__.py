"""The commands that run, explain and create applications."""
