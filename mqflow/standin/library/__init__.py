"""The shared library: its making, its loading, and its C headers."""
