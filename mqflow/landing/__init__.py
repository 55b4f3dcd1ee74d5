"""Lands messages from queues in a journal, exactly once. Imports no Spark.

A journal has a lane for each queue. A lander writes the messages of its queue into segments of its lane. `lane_repair` finishes
the last segment of a lane if no lander can.

No module here imports `mqflow.pipeline`, `mqflow.runtime`, `mqflow.embedded` or `pyspark`.
"""
