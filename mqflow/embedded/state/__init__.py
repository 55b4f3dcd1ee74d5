"""The state of the queue manager: queues, messages, handles, subscriptions, units of work. It knows no MQI call."""
