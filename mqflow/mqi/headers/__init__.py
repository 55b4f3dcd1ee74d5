"""The headers in front of message data: read from bytes, written to bytes. This package knows no queue.

No module here imports `mqflow.verbs`, `mqflow.mqi.attributes` or `mqflow.mqi.pcf`.
"""
