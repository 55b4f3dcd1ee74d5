"""The shared part of client and server: frames, requests and heartbeats. Knows neither end."""
