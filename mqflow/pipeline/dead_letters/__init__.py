"""Rules tables and redrive over landed dead letters.

No module here imports `mqflow.folders`, `mqflow.pipeline.delta` or `deltalake`.
"""
