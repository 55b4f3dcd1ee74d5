"""Opens the queue manager of a URL: URL forms, channel tables, and the settings of reconnection."""
