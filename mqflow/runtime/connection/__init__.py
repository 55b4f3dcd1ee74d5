"""Sessions: a connection made awaitable, its recovery after an outage, and the objects to open again. Knows no listener."""
