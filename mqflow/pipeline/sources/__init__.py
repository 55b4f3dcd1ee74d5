"""Sources of Spark: journals and queues.

No module here imports `mqflow.pipeline.delta`, `mqflow.pipeline.tables` or `deltalake`.
"""
