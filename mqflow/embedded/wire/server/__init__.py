"""The queue manager's end of the wire: accepts connections, checks their users, and carries out their calls.

No module here imports `mqflow.embedded.wire.client`, `mqflow.embedded.calls` or `sqlite3`.
"""
