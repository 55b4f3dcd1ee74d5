"""Reads the fields of a structure by offset and length, apart from the code under test."""

from collections.abc import Iterable

from msgspec import Struct


class Field(Struct, frozen=True):
    """One row of a layout table."""

    offset: int
    length: int
    name: str
    #: What stands there: a number of four bytes, text padded with blanks, or bytes as they are.
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
    """Return what stands at each field's place."""
    return {field.name: data[field.offset : field.offset + field.length] for field in layout}


def expected(layout: Iterable[Field], *, little_endian: bool) -> dict[str, bytes]:
    """Return what should."""
    return {field.name: field.expected(little_endian=little_endian) for field in layout}


def ends_at(layout: Iterable[Field]) -> int:
    """Return how long the structure is by its table, which must have no gap."""
    position = 0
    for field in layout:
        assert position == field.offset, f"{field.name} leaves a gap"
        position += field.length
    return position
