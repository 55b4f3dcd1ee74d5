"""A queue manager over a socket: frames, heartbeats, login, requests and replies, and both ends of each verb.

These folders know the verbs and the administration of the queue manager. The queue manager does not know that it is served.

No module here imports `mqflow.embedded.calls`, `mqflow.embedded.rules` or `sqlite3`.
"""
