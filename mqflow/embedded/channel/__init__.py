"""The listener for MQ's own client programs. It uses `mqflow.fap`, and calls the same verbs as all other clients.

No module here imports `mqflow.embedded.state`, `mqflow.embedded.calls` or `mqflow.embedded.storage`.
"""
