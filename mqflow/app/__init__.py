"""The interface for users: applications, listeners, handlers and their codecs, middleware, settings."""
