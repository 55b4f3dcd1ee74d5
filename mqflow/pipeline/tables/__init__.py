"""Bronze, silver and gold: the tables, and the runs that bring them up to date.

No module here imports `mqflow.verbs`, `mqflow.pipeline.stream` or `mqflow.pipeline.report`.
"""
