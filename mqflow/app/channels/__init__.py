"""Opens the queue manager of a URL: URL forms, channel tables, and the settings of reconnection.

No module here imports `mqflow.app.handlers`, `mqflow.app.run` or `mqflow.runtime.listener`.
"""
