"""The public test kit: it runs an application unchanged on a queue manager in memory, in virtual time, with faults on demand.

No module here imports `mqflow.cli`, `mqflow.pipeline` or `pyspark`.
"""
