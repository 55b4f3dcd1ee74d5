"""A queue manager over a socket: frames, heartbeats, who gets in, the records that are sent, and both ends of each verb.

Stands on the seam and on the administration of the queue manager; nothing of the queue manager knows that it is served.
"""
