"""The types of message properties (MQTYPE_*): values, bytes in a program's memory, words in an MQRFH2, and conversions.

This module knows values and their types; it knows no name and no message.
Source: IBM, MQSETMP (Type), "Mapping property data types to MQRFH2 data types", MQIMPO_CONVERT_TYPE; rc2470, rc2472. The
conversions between numbers, and of booleans and bytes to text, are from memory, without a page of IBM. The text of a float
could not be confirmed: here it is Python's text, which reads back as the same number.
"""

import math
import re
import struct
from contextlib import suppress
from enum import IntEnum
from typing import Final

from mqflow.mqi.ccsid import decode, encode
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers.rfh2_folder import PropertyValue
from mqflow.mqi.layout import byte_order
from mqflow.mqi.lexer import capitals
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("PropertyType", "converted", "from_memory", "to_memory", "type_of_word")


class PropertyType(IntEnum):
    """MQTYPE_*, without MQTYPE_AS_SET (0), which no value has."""

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
        """The word for the type in an MQRFH2 (dt=). A null has the word of a string: any type can be null."""
        return _WORDS[self]

    @property
    def value_bytes(self) -> int:
        """The bytes of a value in memory; 0 if values have different lengths, or no bytes."""
        return _BYTES.get(self, 0)


_WORDS: Final = {
    PropertyType.NULL: "string",
    PropertyType.BOOLEAN: "boolean",
    PropertyType.BYTE_STRING: "bin.hex",
    PropertyType.INT8: "i1",
    PropertyType.INT16: "i2",
    PropertyType.INT32: "i4",
    PropertyType.INT64: "i8",
    PropertyType.FLOAT32: "r4",
    PropertyType.FLOAT64: "r8",
    PropertyType.STRING: "string",
}
_TYPES: Final = {word: kind for kind, word in _WORDS.items() if kind is not PropertyType.NULL} | {"int": PropertyType.INT64}
_LAYOUTS: Final = {
    PropertyType.BOOLEAN: "i",
    PropertyType.INT8: "b",
    PropertyType.INT16: "h",
    PropertyType.INT32: "i",
    PropertyType.INT64: "q",
    PropertyType.FLOAT32: "f",
    PropertyType.FLOAT64: "d",
}
_BYTES: Final = {kind: struct.calcsize(f"<{layout}") for kind, layout in _LAYOUTS.items()}
#: From narrow to wide: a number may become a wider type of its row, because no digit is lost.
_INTEGERS: Final = (PropertyType.INT8, PropertyType.INT16, PropertyType.INT32, PropertyType.INT64)
_FLOATS: Final = (PropertyType.FLOAT32, PropertyType.FLOAT64)
_BOOLEANS: Final = {"TRUE": True, "FALSE": False, "1": True, "0": False}
_NUMBER_CHARS_MAX: Final = 400
_INTEGER: Final = re.compile(r" *+[+-]?[0-9]++")
_REAL: Final = re.compile(r" *+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")


def type_of_word(word: str, value: PropertyValue) -> PropertyType:
    """Return the type of a property in an MQRFH2, from its dt= and its value. If dt= is unknown, the type is a string."""
    return PropertyType.NULL if value is None else _TYPES.get(word, PropertyType.STRING)


def from_memory(kind: PropertyType, data: bytes, *, encoding: int = Encoding.NATIVE, ccsid: int = 1208) -> PropertyValue:
    """Return the value in these bytes of a program's memory.

    Raises `MQIError` 2111 (MQRC_SOURCE_CCSID_ERROR) for text that cannot be decoded, or whose character set is unknown.
    A number uses only the bytes of its type; more bytes are ignored.
    """
    match kind:
        case PropertyType.NULL:
            return None
        case PropertyType.BYTE_STRING:
            return data
        case PropertyType.STRING:
            try:
                return decode(data, ccsid, big_endian=byte_order(encoding) == ">")
            except MQIError as error:
                detail = f"{len(data)} bytes are not text in character set {ccsid}"
                raise error_for(Reason.SOURCE_CCSID_ERROR, "Reading a property", detail=detail) from error
        case _:
            number: int | float = struct.unpack_from(_order(kind, encoding) + _LAYOUTS[kind], data)[0]
            return bool(number) if kind is PropertyType.BOOLEAN else number


def to_memory(kind: PropertyType, value: PropertyValue, *, encoding: int = Encoding.NATIVE, ccsid: int = 1208) -> bytes:
    """Return the bytes of the value in a program's memory; `kind` must be the type of the value.

    A float too large for four bytes becomes infinity. Raises `MQIError` 2466 (MQRC_PROP_VALUE_NOT_CONVERTED) for text that the
    character set lacks, or for an unknown character set.
    """
    match value:
        case None:
            return b""
        case bytes():
            return value
        case str():
            try:
                return encode(value, ccsid, big_endian=byte_order(encoding) == ">")
            except MQIError as error:
                detail = f"{len(value)} characters in character set {ccsid}"
                raise error_for(Reason.PROP_VALUE_NOT_CONVERTED, "Reading a property", detail=detail) from error
        case _:
            layout = _order(kind, encoding) + _LAYOUTS[kind]
            try:
                return struct.pack(layout, value)
            except OverflowError:
                return struct.pack(layout, math.copysign(math.inf, value))


def converted(name: str, kind: PropertyType, value: PropertyValue, wanted: PropertyType) -> PropertyValue:
    """Return the value converted to another type (MQIMPO_CONVERT_TYPE).

    Everything but a null can become text. Text can become any type if it has the form of that type. A number can become a wider
    number, a boolean an integer. Raises `MQIError` 2472 (MQRC_PROP_NUMBER_FORMAT_ERROR) for text of another form, 2470
    (MQRC_PROP_CONV_NOT_SUPPORTED) for any other conversion.
    """
    if wanted is kind:
        return value
    if kind is PropertyType.STRING and isinstance(value, str) and wanted is not PropertyType.NULL:
        return _of_text(name, value, wanted)
    if value is not None:
        if wanted is PropertyType.STRING:
            return _as_text(value)
        if kind is PropertyType.BOOLEAN and wanted in _INTEGERS:
            return int(value)
        if any(kind in row and wanted in row[row.index(kind) :] for row in (_INTEGERS, _FLOATS)):
            return value
    detail = f"It is {kind.name}, which cannot be converted to {wanted.name}"
    raise error_for(Reason.PROP_CONV_NOT_SUPPORTED, "MQINQMP", name, detail=detail)


def _as_text(value: str | float | bytes) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return value.hex().upper() if isinstance(value, bytes) else str(value)


def _of_text(name: str, text: str, wanted: PropertyType) -> PropertyValue:
    if wanted is PropertyType.BOOLEAN and (word := capitals(text)) in _BOOLEANS:
        return _BOOLEANS[word]
    if wanted is PropertyType.BYTE_STRING and " " not in text:
        with suppress(ValueError):
            return bytes.fromhex(text)
    if len(text) <= _NUMBER_CHARS_MAX:
        if wanted in _INTEGERS and _INTEGER.fullmatch(text) and _fits(number := int(text), wanted):
            return number
        if wanted in _FLOATS and _REAL.fullmatch(text):
            return float(text)
    detail = f"Its {len(text)} characters are not a {wanted.name}"
    raise error_for(Reason.PROP_NUMBER_FORMAT_ERROR, "MQINQMP", name, detail=detail)


def _fits(number: int, kind: PropertyType) -> bool:
    half = 1 << (8 * kind.value_bytes - 1)
    return -half <= number < half


def _order(kind: PropertyType, encoding: int) -> str:
    if kind in _FLOATS:
        return "<" if encoding & Encoding.FLOAT_MASK == Encoding.FLOAT_REVERSED else ">"
    return byte_order(encoding)
