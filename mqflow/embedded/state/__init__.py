"""The state of the queue manager: queues, messages, handles, subscriptions, units of work. It knows no MQI call.

No module here imports `mqflow.embedded.calls`, `mqflow.embedded.connection` or `mqflow.embedded.administration`.
"""
