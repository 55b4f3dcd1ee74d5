"""Sinks of Spark: queues and Delta tables, exactly once.

Must not import `mqflow.journal`, `mqflow.policy` or `mqflow.pipeline.tables`.
"""
