"""The shared part of client and server: frames, requests and heartbeats. This folder imports neither client nor server."""
