"""Reads and writes the fields of a flow, one after another, in the byte order of the peer. This file knows no structure."""

import struct
from typing import Final, Literal

from mqflow.mqi.names import padded, stripped

__all__ = ("ByteOrder", "FlowError", "Reader", "Writer", "aligned")

ByteOrder = Literal["<", ">"]
_INT_MAX: Final = 0x7FFF_FFFF


class FlowError(Exception):
    """The bytes from the peer are not a flow of a client channel. The text says why."""


def aligned(length: int) -> int:
    """Return the length, rounded up to a multiple of 4."""
    return -(-length // 4) * 4


class Reader:
    """Takes fields from the start of a body. Raises `FlowError` if the body is too short."""

    def __init__(self, data: bytes, order: ByteOrder, what: str, at: int = 0) -> None:
        self.data: Final = data
        self.order: ByteOrder = order
        #: The offset of the next field.
        self.at: int = at
        self._what = what

    @property
    def left(self) -> int:
        """The number of bytes not yet read."""
        return len(self.data) - self.at

    def raw(self, length: int) -> bytes:
        """Return the next bytes."""
        if length < 0 or length > self.left:
            raise FlowError(f"{self._what} has {len(self.data)} bytes, and a field of {length} bytes at {self.at}")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self) -> int:
        """Return a signed number of 4 bytes."""
        number: int = struct.unpack(f"{self.order}i", self.raw(4))[0]
        return number

    def short(self) -> int:
        """Return an unsigned number of 2 bytes."""
        number: int = struct.unpack(f"{self.order}H", self.raw(2))[0]
        return number

    def byte(self) -> int:
        """Return a byte as a number."""
        return self.raw(1)[0]

    def long(self) -> int:
        """Return a signed number of 8 bytes."""
        number: int = struct.unpack(f"{self.order}q", self.raw(8))[0]
        return number

    def text(self, length: int) -> str:
        """Return the text of a character field, without its padding."""
        return stripped(self.raw(length))

    def count(self, most: int = _INT_MAX) -> int:
        """Return a number that counts bytes or items: 0 to `most`."""
        number = self.number()
        if not 0 <= number <= most:
            raise FlowError(f"{self._what} has the count {number} at {self.at - 4}; at most {most} are accepted")
        return number

    def identifier(self, *known: bytes) -> bytes:
        """Take the identifier of a structure. Raises `FlowError` for an identifier that is not in `known`."""
        found = self.raw(4)
        if found not in known:
            raise FlowError(f"{self._what} has {found!r} where {' or '.join(map(repr, known))} belongs")
        return found

    def version(self, most: int) -> int:
        """Return the version of a structure: 1 to `most`."""
        version = self.number()
        if not 1 <= version <= most:
            raise FlowError(f"{self._what} has a structure of version {version}; versions 1 to {most} are known")
        return version

    def next_is(self, identifier: bytes) -> bool:
        """Return whether the next structure has this identifier."""
        return self.data[self.at : self.at + 4] == identifier

    def string(self, start: int) -> bytes:
        """Take an MQCHARV (20 bytes), and return the bytes of its text. The MQCHARV gives their offset from `start`."""
        self.number()
        offset = self.number()
        self.number()
        length = self.number()
        self.number()
        if length <= 0 or offset <= 0:
            return b""
        if start + offset + length > len(self.data):
            raise FlowError(f"{self._what} has a string of {length} bytes at {offset}, beyond its end")
        return self.data[start + offset : start + offset + length]


class Writer:
    """Collects the fields of a body."""

    def __init__(self, order: ByteOrder) -> None:
        self.order: Final[ByteOrder] = order
        self._parts = bytearray()

    def number(self, *values: int) -> "Writer":
        """Add signed numbers of 4 bytes."""
        self._parts += struct.pack(f"{self.order}{len(values)}i", *values)
        return self

    def short(self, *values: int) -> "Writer":
        """Add unsigned numbers of 2 bytes."""
        self._parts += struct.pack(f"{self.order}{len(values)}H", *values)
        return self

    def byte(self, *values: int) -> "Writer":
        """Add bytes."""
        self._parts += bytes(values)
        return self

    def long(self, value: int) -> "Writer":
        """Add a signed number of 8 bytes."""
        self._parts += struct.pack(f"{self.order}q", value)
        return self

    def text(self, value: str, length: int) -> "Writer":
        """Add a character field, padded with blanks."""
        self._parts += padded(value, length)
        return self

    def raw(self, value: bytes, length: int | None = None) -> "Writer":
        """Add bytes. With `length`, pad them with NULs or cut them."""
        self._parts += value if length is None else value[:length].ljust(length, b"\0")
        return self

    def string(self, offset: int, value: bytes, ccsid: int, room: int = 0) -> "Writer":
        """Add an MQCHARV (20 bytes). `offset` is the distance of its text from the start of the surrounding structure."""
        return self.number(0, offset if value else 0, room, len(value), ccsid)

    def __len__(self) -> int:
        return len(self._parts)

    def done(self) -> bytes:
        """Return the bytes."""
        return bytes(self._parts)
