"""The report: its data, charts and page.

No module here imports `mqflow.verbs`, `mqflow.journal`, `mqflow.pipeline.delta` or `deltalake`.
"""
