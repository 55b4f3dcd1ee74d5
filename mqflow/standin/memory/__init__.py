"""The structures of the MQI in a caller's memory: this folder reads and writes them, in the version that each states.

No module here imports `mqflow.verbs`, `mqflow.embedded` or `mqflow.standin.calls`.
"""
