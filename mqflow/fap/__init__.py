"""The protocol of MQ's client channels (FAP): turns bytes into records and back. It knows no socket, no clock and no MQ rule.

No module here imports `mqflow.embedded`, `mqflow.policy`, `socket` or `time`.
"""
