"""The state of the queue manager: queues, messages, handles, subscriptions, units of work. Knows no MQI call."""
