"""What the queue manager knows: queues, messages, handles, subscriptions, units of work. Knows no MQI call."""
