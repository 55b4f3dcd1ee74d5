"""The shared layout of headers in message data: the byte order of their numbers, the character set of their fields.

This module knows no header.
Source: the numbers of a header follow the Encoding, and its character fields the CodedCharSetId, of the MQMD or the header in
front of it.
"""

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.mqi.ccsid import decode, encode, is_ebcdic
from mqflow.mqi.names import padded, stripped
from mqflow.mqi.options import Encoding

__all__ = ("FIELD_CCSID", "byte_order", "from_field", "oversized", "to_field")

FIELD_CCSID: Final = 1208
"""The default character set of header fields: their bytes are the same in every ASCII-based character set."""


def byte_order(encoding: int) -> Literal["<", ">"]:
    """Return the byte order of integers for `struct`; an encoding without a byte order is big-endian, as Java writes it."""
    return "<" if encoding & Encoding.INTEGER_MASK == Encoding.INTEGER_REVERSED else ">"


def to_field(text: str, length: int, ccsid: int) -> bytes:
    """Return the text as a fixed-length character field, blank-padded or cut to length."""
    field = padded(text, length)
    return encode(field.decode("latin-1"), ccsid) if is_ebcdic(ccsid) else field


def from_field(field: bytes, ccsid: int) -> str:
    """Return the text of a fixed-length character field, without its padding of blanks or NULs."""
    return stripped(decode(field, ccsid).encode("latin-1", "replace")) if is_ebcdic(ccsid) else stripped(field)


def oversized(record: Struct, bits: int = 32) -> str:
    """Return the numbers of the record that have more bits, with the names of their fields, as text."""
    limit = 1 << bits - 1
    return ", ".join(
        f"{name} {number} has more than {bits} bits"
        for name, value in asdict(record).items()
        for number in (value if isinstance(value, tuple) else (value,))
        if isinstance(number, int) and not -limit <= number < limit
    )
