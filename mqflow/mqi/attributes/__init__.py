"""The attributes of objects as records: queues, channels, topics, subscriptions. This package knows no live object.

Must not import `mqflow.verbs` or `mqflow.mqi.pcf`.
"""
