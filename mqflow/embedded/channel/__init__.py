"""The listener for MQ's own client programs. It is one user of `mqflow.fap`, and calls the verbs of every other client.

Must not import `mqflow.embedded.state`, `mqflow.embedded.calls` or `mqflow.embedded.storage`.
"""
