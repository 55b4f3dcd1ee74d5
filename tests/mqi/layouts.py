"""Reads the fields of a structure by offset and length, independent of the code under test."""

from collections.abc import Iterable

from msgspec import Struct


class Field(Struct, frozen=True):
    """One row of a layout table."""

    offset: int
    length: int
    name: str
    #: The content: a number of four bytes, text padded with blanks, or plain bytes.
    value: int | str | bytes

    def expected(self, *, little_endian: bool) -> bytes:
        match self.value:
            case int():
                return self.value.to_bytes(4, "little" if little_endian else "big", signed=True)
            case str():
                return self.value.encode("ascii").ljust(self.length)
            case bytes():
                return self.value


def found(data: bytes, layout: Iterable[Field]) -> dict[str, bytes]:
    """Return the bytes at the place of each field."""
    return {field.name: data[field.offset : field.offset + field.length] for field in layout}


def expected(layout: Iterable[Field], *, little_endian: bool) -> dict[str, bytes]:
    """Return the expected content of each field."""
    return {field.name: field.expected(little_endian=little_endian) for field in layout}


def ends_at(layout: Iterable[Field]) -> int:
    """Return the length of the structure by its layout table, which must have no gap."""
    position = 0
    for field in layout:
        assert position == field.offset, f"{field.name} leaves a gap"
        position += field.length
    return position
