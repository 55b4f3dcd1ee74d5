"""The attributes of objects as records: queues, channels, topics, subscriptions. This package knows no live object.

No module here imports `mqflow.verbs` or `mqflow.mqi.pcf`.
"""
