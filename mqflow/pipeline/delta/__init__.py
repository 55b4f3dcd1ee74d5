"""Delta tables without a jar, on a disk or in an object store: their logs, and the format `mqflow_delta` of Spark.

No module here imports `mqflow.verbs`, `mqflow.mqi` or `mqflow.journal`.
"""
