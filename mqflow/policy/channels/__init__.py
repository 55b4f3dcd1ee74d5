"""Decisions about client channels: tables, their sources, and the order of the attempts. Reads no file.

No module here imports `mqflow.verbs`, `os` or `pathlib`.
"""
