"""From a URL to a queue manager: URL forms, channel tables, and the settings of reconnection."""
