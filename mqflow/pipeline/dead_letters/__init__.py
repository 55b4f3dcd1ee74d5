"""Rules tables and redrive over landed dead letters.

Must not import `mqflow.folders`, `mqflow.pipeline.delta` or `deltalake`.
"""
