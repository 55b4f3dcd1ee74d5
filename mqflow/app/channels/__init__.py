"""Opens the queue manager of a URL: URL forms, channel tables, and the settings of reconnection.

Must not import `mqflow.app.handlers`, `mqflow.app.run` or `mqflow.runtime.listener`.
"""
