"""What a name may look like: queues, queue managers, channels, users. Knows the grammar, no registry of what exists."""

import re
import string
from typing import Final

__all__ = (
    "CHANNEL_NAME_CHARS_MAX",
    "OBJECT_NAME_CHARS_MAX",
    "dynamic_pattern",
    "is_channel_name",
    "is_object_name",
    "is_text",
    "padded",
    "stripped",
)

OBJECT_NAME_CHARS_MAX: Final = 48
CHANNEL_NAME_CHARS_MAX: Final = 20
_ALLOWED: Final = frozenset(string.ascii_letters + string.digits + "._/%")


# 15 digits is what a queue manager on Unix has been seen to make, 16 what z/OS and the embedded one do.
_DYNAMIC: Final = re.compile(r"(.{1,33}?)[0-9A-F]{15,16}")


def is_object_name(name: str) -> bool:
    """Return whether a queue manager would accept this as the name of a queue: 1 to 48 of ``A-Z a-z 0-9 . _ / %``."""
    return 0 < len(name) <= OBJECT_NAME_CHARS_MAX and _ALLOWED.issuperset(name)


def is_channel_name(name: str) -> bool:
    """Return whether a queue manager would accept this as the name of a channel: 1 to 20 of ``A-Z a-z 0-9 . _ / %``."""
    return is_object_name(name) and len(name) <= CHANNEL_NAME_CHARS_MAX


def dynamic_pattern(name: str) -> str:
    """Return what a dynamic queue was asked for by (DynamicQName), as its name tells: ``AMQ.*`` of AMQ.5C991A0D23B6310.

    Empty for any other name. One that somebody chose, and that ends in as many hexadecimal digits, is taken for one too.
    """
    made = _DYNAMIC.fullmatch(name)
    return f"{made[1]}*" if made else ""


def is_text(text: str) -> bool:
    """Return whether it can be written down: no half of a surrogate pair, as undecodable arguments and file names have."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def padded(text: str, length: int) -> bytes:
    """Return the text as a fixed-length character field: blank-padded, cut to length, `?` where it is not Latin-1."""
    return text.encode("latin-1", "replace")[:length].ljust(length)


def stripped(field: bytes) -> str:
    """Return what a fixed-length character field says: up to the first NUL, without trailing blanks."""
    return field.split(b"\0", 1)[0].rstrip().decode("latin-1")
