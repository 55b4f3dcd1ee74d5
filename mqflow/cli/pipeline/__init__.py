"""The commands of the data pipeline: journals, landing and Spark.

No module here imports `mqflow.embedded` or `mqflow.bindings`.
"""
