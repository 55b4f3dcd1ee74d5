"""A queue manager over a socket: frames, heartbeats, log-in, requests and replies, with the client's and the server's end.

These packages know the verbs and the administration of the queue manager. The queue manager does not know about this server.

No module here imports `mqflow.embedded.calls`, `mqflow.embedded.rules` or `sqlite3`.
"""
