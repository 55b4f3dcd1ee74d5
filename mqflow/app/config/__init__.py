"""The configuration of an application: settings and plugins.

Must not import `mqflow.verbs`, `mqflow.runtime`, `mqflow.embedded` or `mqflow.bindings`.
"""
