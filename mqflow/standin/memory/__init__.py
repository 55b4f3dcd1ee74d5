"""The structures of the MQI in a caller's memory: this folder has the layouts, and reads and writes the structures.

Must not import `mqflow.verbs`, `mqflow.embedded` or `mqflow.standin.calls`.
"""
