"""The MQI calls as steps on the state, one file for each call. Steps run under the lock, and know no connection and no wire.

No module here imports `mqflow.embedded.connection`, `mqflow.embedded.administration`, `mqflow.embedded.wire` or `threading`.
"""
