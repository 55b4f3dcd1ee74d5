"""Opens the queue manager of a URL: the forms of URLs, channel tables, and the settings for reconnecting.

No module here imports `mqflow.app.handlers`, `mqflow.app.run` or `mqflow.runtime.listener`.
"""
