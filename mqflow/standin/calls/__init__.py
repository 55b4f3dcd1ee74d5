"""The calls of the stand-in library: each call takes C arguments, and carries out a verb of `mqflow.verbs`.

No module here imports `mqflow.standin.library` or `mqflow.embedded`.
"""
