"""What keeps a client package from being used at all, before any verb was called."""

__all__ = ("ClientPackageError",)


class ClientPackageError(Exception):
    """A client package cannot be used, or cannot do what is asked; the sentence says what is missing, and what to do."""
