"""A queue manager over a socket: frames, heartbeats, login, requests and replies, and both ends of each verb.

Knows the seam and the administration of the queue manager. The queue manager does not know that it is served.
"""
