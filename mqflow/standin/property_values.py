"""The types of message properties (MQTYPE_*): as bytes in a program's memory, as Python values, as words in an MQRFH2.

Pure. Source: IBM, MQSETMP (Type), "Mapping JMS messages onto IBM MQ messages" (dt=).
"""

import struct
from enum import IntEnum
from typing import Final

from mqflow.mqi.rfh2_folder import PropertyValue

__all__ = ("Type", "packed", "type_of_word", "unpacked")


class Type(IntEnum):
    """MQTYPE_*."""

    NULL = 0x2
    BOOLEAN = 0x4
    BYTE_STRING = 0x8
    INT8 = 0x10
    INT16 = 0x20
    INT32 = 0x40
    INT64 = 0x80
    FLOAT32 = 0x100
    FLOAT64 = 0x200
    STRING = 0x400

    @property
    def word(self) -> str:
        """What an MQRFH2 calls it (dt=)."""
        return _WORDS[self]

    @property
    def size(self) -> int:
        """How many bytes a value has; 0 where values differ in length."""
        layout = _LAYOUTS.get(self)
        return struct.calcsize(layout) if layout else 0


_WORDS: Final = {
    Type.NULL: "",
    Type.BOOLEAN: "boolean",
    Type.BYTE_STRING: "bin.hex",
    Type.INT8: "i1",
    Type.INT16: "i2",
    Type.INT32: "i4",
    Type.INT64: "i8",
    Type.FLOAT32: "r4",
    Type.FLOAT64: "r8",
    Type.STRING: "string",
}
_TYPES: Final = {word: kind for kind, word in _WORDS.items() if word} | {"int": Type.INT64}
_LAYOUTS: Final = {
    Type.BOOLEAN: "<i",
    Type.INT8: "<b",
    Type.INT16: "<h",
    Type.INT32: "<i",
    Type.INT64: "<q",
    Type.FLOAT32: "<f",
    Type.FLOAT64: "<d",
}
_INTEGERS: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


def type_of_word(word: str, value: PropertyValue) -> Type:
    """Return the type that an MQRFH2's dt= and value say; a string where it says nothing known."""
    return Type.NULL if value is None else _TYPES.get(word, Type.STRING)


def unpacked(kind: Type, value: bytes) -> PropertyValue:
    """Return the value that these bytes of a program's memory are."""
    if kind is Type.NULL:
        return None
    if kind is Type.STRING:
        return value.decode("utf-8", "replace")
    if kind is Type.BYTE_STRING:
        return value
    number: int | float = struct.unpack(_LAYOUTS[kind], value)[0]
    return bool(number) if kind is Type.BOOLEAN else number


def packed(kind: Type, value: PropertyValue) -> bytes:
    """Return the value as bytes of this type.

    Raises `ValueError` for a text that is no such number, `OverflowError` for a number that does not fit, and `TypeError` where
    there is no way from the one to the other.
    """
    if value is None or kind is Type.NULL:
        if value is None and kind is Type.NULL:
            return b""
        raise TypeError("Nothing becomes a null, and a null becomes nothing")
    if kind is Type.STRING:
        return _as_text(value).encode()
    if isinstance(value, bytes) or kind is Type.BYTE_STRING:
        if isinstance(value, bytes) and kind is Type.BYTE_STRING:
            return value
        raise TypeError("Bytes become no number")
    if kind is Type.BOOLEAN:
        return struct.pack(_LAYOUTS[kind], _as_boolean(value))
    try:
        return struct.pack(_LAYOUTS[kind], int(value) if kind in _INTEGERS else float(value))
    except struct.error as error:
        raise OverflowError(f"{value} is out of the range of {kind.name}") from error


def _as_text(value: str | float | bytes) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def _as_boolean(value: str | float) -> bool:
    if isinstance(value, str):
        words = {"TRUE": True, "FALSE": False, "1": True, "0": False}
        if value.upper() not in words:
            raise ValueError(f"{value!r} is no boolean")
        return words[value.upper()]
    return bool(value)
