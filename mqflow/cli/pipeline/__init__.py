"""The commands of the data pipeline: journals, landing and Spark.

Must not import `mqflow.embedded` or `mqflow.bindings`.
"""
