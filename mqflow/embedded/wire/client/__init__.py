"""The application's end of the wire: connects to a queue manager that another process serves.

No module here imports `mqflow.embedded.wire.server`, `mqflow.embedded.state` or `mqflow.embedded.storage`.
"""
