"""The interface for users: applications, listeners, handlers and their codecs, middleware, settings.

Must not import `mqflow.cli`, `mqflow.pipeline`, `mqflow.otel`, `click` or `opentelemetry`.
"""
