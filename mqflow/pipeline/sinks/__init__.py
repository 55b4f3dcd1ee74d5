"""Sinks of Spark: queues and Delta tables, exactly once.

No module here imports `mqflow.journal`, `mqflow.policy` or `mqflow.pipeline.tables`.
"""
