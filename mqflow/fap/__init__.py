"""The protocol of MQ's client channels (FAP): bytes to records and back. This package knows no socket, clock or rule of MQ.

No module here imports `mqflow.embedded`, `mqflow.policy`, `socket` or `time`.
"""
