"""Bronze, silver and gold: the tables, and the runs that bring them up to date.

Must not import `mqflow.verbs`, `mqflow.pipeline.stream` or `mqflow.pipeline.report`.
"""
