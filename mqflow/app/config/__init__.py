"""The configuration of an application: settings and plugins.

No module here imports `mqflow.verbs`, `mqflow.runtime`, `mqflow.embedded` or `mqflow.bindings`.
"""
