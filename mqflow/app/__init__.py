"""What a user types: applications, listeners, handlers and their codecs, middleware, settings."""
