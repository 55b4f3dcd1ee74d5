"""The calls of the stand-in library: each from C arguments to a verb of the seam."""
