"""The queue manager's end of the wire: accepts connections, checks their users, and carries out their calls.

Must not import `mqflow.embedded.wire.client`, `mqflow.embedded.calls` or `sqlite3`.
"""
