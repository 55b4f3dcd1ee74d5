"""What a name may look like: queues, queue managers, channels, users. Knows the grammar, no registry of what exists."""

import string
from typing import Final

__all__ = (
    "CHANNEL_NAME_CHARS_MAX",
    "OBJECT_NAME_CHARS_MAX",
    "is_channel_name",
    "is_object_name",
    "is_text",
    "padded",
    "stripped",
)

OBJECT_NAME_CHARS_MAX: Final = 48
CHANNEL_NAME_CHARS_MAX: Final = 20
_ALLOWED: Final = frozenset(string.ascii_letters + string.digits + "._/%")


def is_object_name(name: str) -> bool:
    """Return whether a queue manager would accept this as the name of a queue: 1 to 48 of ``A-Z a-z 0-9 . _ / %``."""
    return 0 < len(name) <= OBJECT_NAME_CHARS_MAX and _ALLOWED.issuperset(name)


def is_channel_name(name: str) -> bool:
    """Return whether a queue manager would accept this as the name of a channel: 1 to 20 of ``A-Z a-z 0-9 . _ / %``."""
    return is_object_name(name) and len(name) <= CHANNEL_NAME_CHARS_MAX


def is_text(text: str) -> bool:
    """Return whether it can be written down: no half of a surrogate pair, as undecodable arguments and file names have."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def padded(text: str, length: int) -> bytes:
    """Return the text as a fixed-length character field: blank-padded, cut to length, `?` where it is not Latin-1."""
    return text.encode("latin-1", "replace")[:length].ljust(length)


def stripped(field: bytes) -> str:
    """Return what a fixed-length character field says: up to the first NUL, without trailing blanks."""
    return field.split(b"\0", 1)[0].rstrip().decode("latin-1")
