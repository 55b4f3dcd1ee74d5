"""The configuration of an application: its settings and its plugins.

No module here imports `mqflow.verbs`, `mqflow.runtime`, `mqflow.embedded` or `mqflow.bindings`.
"""
