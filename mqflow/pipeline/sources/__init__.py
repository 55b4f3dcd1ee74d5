"""Sources of Spark: journals and queues.

Must not import `mqflow.pipeline.delta`, `mqflow.pipeline.tables` or `deltalake`.
"""
