"""Lands messages from queues in a journal, exactly once: a lander for each lane, and the repair of a lane. Imports no Spark.

No module here imports `mqflow.pipeline`, `mqflow.runtime`, `mqflow.embedded` or `pyspark`.
"""
