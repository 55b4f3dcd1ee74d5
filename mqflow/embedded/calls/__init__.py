"""The steps of MQI calls, one file for each call. A step reads or changes the state of the queue manager under its lock.

A step knows no connection and no wire.

No module here imports `mqflow.embedded.connection`, `mqflow.embedded.administration`, `mqflow.embedded.wire` or `threading`.
"""
