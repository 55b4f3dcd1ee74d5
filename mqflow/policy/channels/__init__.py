"""Decisions about client channels: where tables come from, and which channels are tried in which order. Reads no file.

No module here imports `mqflow.verbs`, `os` or `pathlib`.
"""
