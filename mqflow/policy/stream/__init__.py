"""Decisions of `mqflow spark stream`: what runs next, when it runs, and which failures deserve another attempt.

No module here imports `mqflow.pipeline`, `mqflow.mqi` or `pyspark`.
"""
