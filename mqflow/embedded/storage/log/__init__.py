"""Keeps the changes of a queue manager in an append-only log of segments: one write and one sync for each commit group.

It knows bytes and files, but no thread and no caller.
"""
