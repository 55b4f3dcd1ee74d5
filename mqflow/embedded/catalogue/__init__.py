"""The kinds of objects of a queue manager, and the objects that a new queue manager creates. This package has data only.

No module here imports `mqflow.embedded.state` or `mqflow.verbs`.
"""
