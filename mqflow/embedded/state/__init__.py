"""The state of the queue manager: queues, messages, handles, subscriptions, units of work. It knows no MQI call.

Must not import `mqflow.embedded.calls`, `mqflow.embedded.connection` or `mqflow.embedded.administration`.
"""
