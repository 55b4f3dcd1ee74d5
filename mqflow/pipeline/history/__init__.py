"""The history of failures, for the console: weeks of the tables, compared and drawn on an axis of time. It loads no Spark.

No module here imports `pyspark`, `mqflow.verbs` or `mqflow.journal`.
"""
