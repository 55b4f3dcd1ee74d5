"""The shared part of client and server: frames, requests and heartbeats. This package imports neither client nor server.

No module here imports `mqflow.embedded.wire.client`, `mqflow.embedded.wire.server` or `mqflow.embedded.state`.
"""
