"""The grammar of names: queues, queue managers, channels, users, ports. This module knows no list of existing objects."""

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
    "port_of",
    "stripped",
)

OBJECT_NAME_CHARS_MAX: Final = 48
CHANNEL_NAME_CHARS_MAX: Final = 20
_PORT_MAX: Final = 65_535
_ALLOWED: Final = frozenset(string.ascii_letters + string.digits + "._/%")


# Queue managers on Unix were observed to make 15 digits; z/OS and the embedded queue manager make 16.
_DYNAMIC: Final = re.compile(r"(.{1,33}?)[0-9A-F]{15,16}")


def is_object_name(name: str) -> bool:
    """Return whether a queue manager accepts this as the name of a queue: 1 to 48 of ``A-Z a-z 0-9 . _ / %``."""
    return 0 < len(name) <= OBJECT_NAME_CHARS_MAX and _ALLOWED.issuperset(name)


def is_channel_name(name: str) -> bool:
    """Return whether a queue manager accepts this as the name of a channel: 1 to 20 of ``A-Z a-z 0-9 . _ / %``."""
    return is_object_name(name) and len(name) <= CHANNEL_NAME_CHARS_MAX


def port_of(text: str) -> int | None:
    """Return the port in the text: a number from 0 to 65535. Return None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(_PORT_MAX))
    return int(text) if is_number and int(text) <= _PORT_MAX else None


def dynamic_pattern(name: str) -> str:
    """Return the DynamicQName that made a dynamic queue, derived from the name: ``AMQ.*`` for AMQ.5C991A0D23B6310.

    Empty for any other name. A name that a person chose is mistaken for the name of a dynamic queue if it ends in 15 or 16
    hexadecimal digits.
    """
    made = _DYNAMIC.fullmatch(name)
    return f"{made[1]}*" if made else ""


def is_text(text: str) -> bool:
    """Return whether the text can be encoded. Half of a surrogate pair, as in undecodable file names, cannot."""
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def padded(text: str, length: int) -> bytes:
    """Return the text as a fixed-length character field: blank-padded, cut to length, `?` for characters outside Latin-1."""
    return text.encode("latin-1", "replace")[:length].ljust(length)


def stripped(field: bytes) -> str:
    """Return the text of a fixed-length character field: up to the first NUL, without trailing blanks."""
    return field.split(b"\0", 1)[0].rstrip(b" ").decode("latin-1")
