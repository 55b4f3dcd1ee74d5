"""The attributes of objects as records: queues, channels, topics, subscriptions. Knows no live object."""
