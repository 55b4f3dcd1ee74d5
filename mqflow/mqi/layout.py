"""The shared layout of headers in message data: the byte order of their numbers, the character set of their fields.

This module knows no header.
Source: the numbers of a header follow the Encoding, and its character fields the CodedCharSetId, of the MQMD or the header in
front of it.
"""

import struct
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict

from mqflow.mqi.ccsid import decode, encode, is_ebcdic
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import padded, stripped
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("FIELD_CCSID", "Fields", "byte_order", "from_field", "oversized", "packed", "to_field")

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


def packed(record: Struct, reason: Reason, layout: struct.Struct, *values: object) -> bytes:
    """Return these values of the record as bytes.

    If a value does not fit into its field, raises the error for the reason. The error names the field.
    """
    try:
        return layout.pack(*values)
    except struct.error as error:
        detail = oversized(record) or str(error)
        raise error_for(reason, f"Writing the record {type(record).__name__}", detail=detail) from error


class Fields:
    """The fields of a header in their order, written ``name:kind``: `8c` is a character field, other kinds are of `struct`.

    The names are those of the header's record. The record has at least two fields.
    """

    def __init__(self, text: str) -> None:
        names, kinds = zip(*(item.split(":") for item in text.split()), strict=True)
        self._names: Final[tuple[str, ...]] = names
        self._values: Final = attrgetter(*names)
        layout = "".join(kinds).replace("c", "s")
        self._layouts: Final = {order: struct.Struct(order + layout) for order in ("<", ">")}
        #: The index and the length of each character field.
        self._texts: Final = [(index, int(kind[:-1])) for index, kind in enumerate(kinds) if kind.endswith("c")]
        #: The length of all fields in bytes.
        self.length: Final = self._layouts[">"].size

    # Any: struct gives numbers and bytes.
    def read(self, data: bytes, at: int, order: Literal["<", ">"], ccsid: int = FIELD_CCSID) -> dict[str, Any]:
        """Return the values by name. The fields begin at the offset `at`."""
        text = partial(from_field, ccsid=ccsid) if is_ebcdic(ccsid) else stripped
        values = list(self._layouts[order].unpack_from(data, at))
        for index, _ in self._texts:
            values[index] = text(values[index])
        return dict(zip(self._names, values, strict=True))

    def write(self, record: Struct, reason: Reason, order: Literal["<", ">"], ccsid: int = FIELD_CCSID) -> bytes:
        """Return the fields of the record as bytes. Raises the errors of `packed`."""
        field = partial(to_field, ccsid=ccsid) if is_ebcdic(ccsid) else padded
        values = list(self._values(record))
        for index, length in self._texts:
            values[index] = field(values[index], length)
        return packed(record, reason, self._layouts[order], *values)


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
