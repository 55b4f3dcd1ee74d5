"""The public test kit: the same application on a queue manager in memory, in virtual time, with faults on demand.

Must not import `mqflow.cli`, `mqflow.pipeline` or `pyspark`.
"""
