"""Decisions about client channels: tables, their sources, and the order of the attempts. Reads no file.

Must not import `mqflow.verbs`, `os` or `pathlib`.
"""
