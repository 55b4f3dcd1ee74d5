"""Decisions about a stream of jobs: what runs next, when, and which failures deserve another attempt.

Must not import `mqflow.pipeline`, `mqflow.mqi` or `pyspark`.
"""
