"""The stream: keeps bronze, silver and gold up to date, measures how far each table is behind, and sends alerts.

No module here imports `mqflow.pipeline.sources`, `mqflow.pipeline.sinks` or `mqflow.pipeline.report`.
"""
