"""What client and server of the wire share: frames, requests, heartbeats. Knows neither end."""
