"""The kinds of objects that a queue manager knows, and the objects that it creates itself. This package holds data only.

No module here imports `mqflow.embedded.state` or `mqflow.verbs`.
"""
