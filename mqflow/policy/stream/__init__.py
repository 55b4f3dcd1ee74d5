"""Decisions about a stream of jobs: what runs next, when, and which failures deserve another attempt.

No module here imports `mqflow.pipeline`, `mqflow.mqi` or `pyspark`.
"""
