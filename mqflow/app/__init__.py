"""The interface for users of mqflow: applications, listeners, handlers and their codecs, middleware, settings.

No module here imports `mqflow.cli`, `mqflow.pipeline`, `mqflow.otel`, `click` or `opentelemetry`.
"""
