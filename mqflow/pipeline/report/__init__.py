"""The report: its data, charts and page.

Must not import `mqflow.verbs`, `mqflow.journal`, `mqflow.pipeline.delta` or `deltalake`.
"""
