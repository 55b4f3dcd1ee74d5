"""The calls of the stand-in library: each call takes C arguments, and carries out a verb of the seam.

No module here imports `mqflow.standin.library` or `mqflow.embedded`.
"""
