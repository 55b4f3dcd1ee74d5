"""The public test kit: the same application on a queue manager in memory, in virtual time, with faults on demand.

No module here imports `mqflow.cli`, `mqflow.pipeline` or `pyspark`.
"""
