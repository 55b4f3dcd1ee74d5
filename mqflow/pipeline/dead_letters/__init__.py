"""Applies rules tables to dead letters that `mqflow land` has moved to the journal, and redrives them.

No module here imports `mqflow.folders`, `mqflow.pipeline.delta` or `deltalake`.
"""
