"""The shared library: this folder makes and loads it, and writes its C headers."""
