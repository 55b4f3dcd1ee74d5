"""The shared library itself: made, loaded, and the C headers beside it."""
