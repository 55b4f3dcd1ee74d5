"""The shared layout of headers in message data: the byte order of their numbers, the character set of their fields.

This module knows no header.
Source: the numbers of a header follow the Encoding, and its character fields the CodedCharSetId, of the MQMD or the header in
front of it.
"""

import struct
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.mqi.ccsid import decode, encode, is_ebcdic
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import padded, stripped
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("FIELD_CCSID", "byte_order", "from_field", "oversized", "packed", "to_field")

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


def packed(record: Struct, reason: Reason, layout: str, *values: object) -> bytes:
    """Return these values of the record as bytes.

    If a value does not fit into its field, raises the error for the reason. The error names the field.
    """
    try:
        return struct.pack(layout, *values)
    except struct.error as error:
        detail = oversized(record) or str(error)
        raise error_for(reason, f"Writing the record {type(record).__name__}", detail=detail) from error


def oversized(record: Struct, bits: int = 32) -> str:
    """Return the numbers of the record that have more bits, with the names of their fields, as text.

    Fields of milliseconds have 64 bits.
    """
    sizes = ((name, value, 64 if name.endswith("_ms") else bits) for name, value in asdict(record).items())
    return ", ".join(
        f"{name} {number} has more than {size} bits"
        for name, value, size in sizes
        for number in (value if isinstance(value, tuple) else (value,))
        if isinstance(number, int) and not -(1 << size - 1) <= number < 1 << size - 1
    )
