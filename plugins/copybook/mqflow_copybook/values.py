"""Converts the bytes of elementary items to values, and back. Knows formats and the machine of the sender; knows no record.

`ValueError` and `TypeError` say what is wrong with the bytes or the value; the caller adds the item.
Sources: the EBCDIC and hexadecimal formats of z/Architecture, from memory; the formats with ASCII are compared with GnuCOBOL.
"""

import codecs
import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from functools import cache, lru_cache
from typing import Any, Final, Literal, assert_never

from msgspec import Struct

from mqflow import Message, MessageDescriptor, MQIError, Reason
from mqflow_copybook.formats import Binary, Float, Format, Number, Packed, Text, Zoned, size_of

__all__ = ("Machine", "decoded", "encoded", "machine")

_EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
_UNDEFINED: Final = "\ufffe"
"""The character with which Python's character maps mark a byte without a character."""
_UTF8: Final = {367: "ascii", 1208: "utf-8"}
_INTEGER_REVERSED: Final = 0x2
_FLOAT_IEEE: Final = 0x100
_FLOAT_REVERSED: Final = 0x200
_FLOAT_S390: Final = 0x300
_FLOAT_MASK: Final = 0xF00
_NEGATIVE_ZONES: Final = (0xB, 0xD)
_EBCDIC_SIGNS: Final = {
    zone << 4 | n: (n, -1 if zone in _NEGATIVE_ZONES else 1) for zone in range(0xA, 0x10) for n in range(10)
}
#: GnuCOBOL writes p to y for a negative digit. The letters are the EBCDIC signs after a conversion of the text.
_ASCII_SIGNS: Final = {
    **{code: (n, 1) for n in range(10) for code in (0x30 + n, ord("{ABCDEFGHI"[n]))},
    **{code: (n, -1) for n in range(10) for code in (0x70 + n, ord("}JKLMNOPQR"[n]))},
}

Order = Literal["big", "little"]


class Machine(Struct, frozen=True, kw_only=True):
    """The form in which the program at the other end writes text and numbers."""

    ccsid: int
    decode: Callable[[bytes], str]
    encode: Callable[[str], bytes]
    is_ebcdic: bool
    #: The byte order of COMP-5.
    native: Order
    #: The float part of MQMD.Encoding.
    floats: int


@lru_cache(maxsize=64)  # senders choose the numbers
def machine(ccsid: int, encoding: int) -> Machine:
    """Return how text and numbers are written for these fields of the MQMD.

    Raises `MQIError` 2111 for an unknown CCSID, and `ValueError` for a CCSID with more than one byte for a digit.
    """
    decode, encode = _text_functions(ccsid)
    digits = encode("09")
    if len(digits) != len("09"):
        raise ValueError(f"CCSID {ccsid} has more than one byte for a digit, and cannot be the character set of a record")
    return Machine(
        ccsid=ccsid,
        decode=decode,
        encode=encode,
        is_ebcdic=digits == b"\xf0\xf9",
        native="little" if encoding & _INTEGER_REVERSED else "big",
        floats=encoding & _FLOAT_MASK or _FLOAT_IEEE,
    )


@cache
def _text_functions(ccsid: int) -> tuple[Callable[[bytes], str], Callable[[str], bytes]]:
    """Return the functions that decode and encode; a code page comes from mqflow as a table of 256 characters."""
    if name := _UTF8.get(ccsid):
        return lambda data: data.decode(name), lambda text: text.encode(name)
    table = "".join(_character(ccsid, code) for code in range(256))
    if "0" not in table:
        raise ValueError(f"CCSID {ccsid} has more than one byte for a digit, and cannot be the character set of a record")
    mapping = codecs.charmap_build(table)
    # The stubs do not say that the table may be a string, which is the fast kind.
    decode = lambda data: codecs.charmap_decode(data, "strict", table)[0]  # noqa: E731  # pyright: ignore[reportArgumentType]
    return decode, lambda text: codecs.charmap_encode(text, "strict", mapping)[0]


def _character(ccsid: int, code: int) -> str:
    try:
        return Message(MessageDescriptor(format="MQSTR", ccsid=ccsid), bytes([code]), "").text()
    except MQIError as error:
        if error.reason == Reason.SOURCE_CCSID_ERROR:
            raise
        return _UNDEFINED


def decoded(form: Format, data: bytes, at: Machine) -> Any:  # str, int, Decimal or float, as the format says
    """Return the value of an item. Raises `ValueError` for bytes that the format cannot have."""
    match form:
        case Text():
            text = at.decode(data)
            return text.lstrip(" ") if form.is_right else text.rstrip(" ")
        case Float():
            return _float(data, at)
        case Binary():
            number = int.from_bytes(data, at.native if form.native else "big", signed=form.signed)
        case Zoned():
            number = _zoned(form, data, at)
        case Packed():
            number = _packed(form, data)
        case _:
            assert_never(form)
    return Decimal(number).scaleb(-form.scale, _EXACT) if form.scale > 0 else number * 10**-form.scale


def encoded(form: Format, value: Any, at: Machine) -> bytes:  # the value comes from the application: any type
    """Return the bytes of an item. Raises `TypeError` for a value of another type, and `ValueError` if it does not fit."""
    if isinstance(form, Text):
        return _text_bytes(form, value, at)
    if isinstance(form, Float):
        return _float_bytes(form, value, at)
    number = _units(form, value)
    digits = str(abs(number)).rjust(form.digits, "0")
    match form:
        case Binary():
            return _binary_bytes(form, number, digits, at)
        case _ if len(digits) > form.digits:
            raise ValueError(f"{value} has more digits than the picture, which has {form.digits}")
        case Packed():
            sign = ("d" if number < 0 else "c") if form.signed else "f"
            return bytes.fromhex((digits + sign).rjust(2 * size_of(form), "0"))
        case Zoned():
            return _zoned_bytes(form, digits, at, is_negative=number < 0)
        case _:
            assert_never(form)


def _text_bytes(form: Text, value: object, at: Machine) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"it takes a str, and got a {type(value).__name__}")
    data = at.encode(value)
    if len(data) > form.size:
        raise ValueError(f"the text has {len(data)} bytes, and the item has {form.size}")
    blank = at.encode(" ")
    return data.rjust(form.size, blank) if form.is_right else data.ljust(form.size, blank)


def _units(form: Number, value: object) -> int:
    """Return the value in units of the last digit of the picture."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError(f"it takes an int or a Decimal, and got a {type(value).__name__}")
    try:
        units = int(_EXACT.to_integral_exact(Decimal(value).scaleb(form.scale, _EXACT)))
    except (DecimalException, ValueError, OverflowError):
        raise ValueError(f"{value} has digits that the picture has no place for") from None
    if units < 0 and not form.signed:
        raise ValueError(f"{value} is negative, and the picture has no S")
    return units


def _binary_bytes(form: Binary, number: int, digits: str, at: Machine) -> bytes:
    if len(digits) > form.digits and not form.native:
        raise ValueError(f"{number} has more digits than the picture, which has {form.digits}; COMP-5 takes the whole range")
    try:
        return number.to_bytes(size_of(form), at.native if form.native else "big", signed=form.signed)
    except OverflowError:
        raise ValueError(f"{number} does not fit into {size_of(form)} bytes") from None


def _packed(form: Packed, data: bytes) -> int:
    digits, sign = data.hex()[:-1], data.hex()[-1]
    if not digits.isdecimal() or sign.isdecimal():
        raise ValueError("these bytes are no packed number: each half byte is a digit, and the last one is a sign (A to F)")
    if len(digits) > form.digits and digits[0] != "0":
        raise ValueError(f"the number has more digits than the picture, which has {form.digits}")
    return _signed(form, int(digits), is_negative=sign in "bd")


def _zoned(form: Zoned, data: bytes, at: Machine) -> int:
    place = 0 if form.leading else -1
    if form.separate:
        sign = at.decode(data[place:][:1])
        digits = data[1:] if form.leading else data[:-1]
        if sign not in {"+", "-"}:
            raise ValueError("these bytes are no number: the sign is neither + nor -")
        is_negative = sign == "-"
    else:
        signs = _EBCDIC_SIGNS if at.is_ebcdic else _ASCII_SIGNS
        digit, factor = signs.get(data[place], (None, 1))
        if digit is None:
            raise ValueError("these bytes are no number: the byte with the sign has no digit")
        plain = at.encode(str(digit))
        digits = plain + data[1:] if form.leading else data[:-1] + plain
        is_negative = factor < 0
    zone = 0xF0 if at.is_ebcdic else 0x30
    if not all(zone <= byte <= zone + 9 for byte in digits):
        raise ValueError("these bytes are no number: some are no digits")
    return _signed(form, int(bytes(byte & 0xF | 0x30 for byte in digits)), is_negative=is_negative)


def _zoned_bytes(form: Zoned, digits: str, at: Machine, *, is_negative: bool) -> bytes:
    data = bytearray(at.encode(digits))
    if form.separate:
        sign = at.encode("-" if is_negative else "+")
        return sign + bytes(data) if form.leading else bytes(data) + sign
    if form.signed and (at.is_ebcdic or is_negative):
        zone = (0xD0 if is_negative else 0xC0) if at.is_ebcdic else 0x70
        place = 0 if form.leading else -1
        data[place] = zone | data[place] & 0xF
    return bytes(data)


def _signed(form: Number, size: int, *, is_negative: bool) -> int:
    if is_negative and size and not form.signed:
        raise ValueError("the number is negative, and the picture has no S")
    return -size if is_negative else size


def _float(data: bytes, at: Machine) -> float:
    if at.floats == _FLOAT_S390:
        bits = int.from_bytes(data, "big")
        width = 8 * len(data) - 8
        exponent = (bits >> width & 0x7F) - 64
        return math.ldexp(bits & (1 << width) - 1, 4 * exponent - width) * (-1 if data[0] & 0x80 else 1)
    return float(struct.unpack(_float_code(len(data), at), data)[0])


def _float_bytes(form: Float, value: object, at: Machine) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"it takes a float, and got a {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"the number does not fit into {form.size} bytes") from None
    if at.floats != _FLOAT_S390:
        try:
            return struct.pack(_float_code(form.size, at), number)
        except OverflowError:
            raise ValueError(f"{number} does not fit into {form.size} bytes") from None
    if not math.isfinite(number):
        raise ValueError(f"{number} has no hexadecimal float")
    fraction, power = math.frexp(number)
    width, exponent = 8 * form.size - 8, -(-power // 4)
    bits = round(math.ldexp(abs(fraction), width + power - 4 * exponent))
    if bits >> width:
        bits, exponent = bits >> 4, exponent + 1
    if exponent > 63:  # noqa: PLR2004 - seven bits, from -64
        raise ValueError(f"{number} does not fit into {form.size} bytes")
    if exponent < -64 or not bits:  # noqa: PLR2004 - as above
        return bytes(form.size)
    return ((number < 0) << width + 7 | exponent + 64 << width | bits).to_bytes(form.size, "big")


def _float_code(size: int, at: Machine) -> str:
    if at.floats not in {_FLOAT_IEEE, _FLOAT_REVERSED}:
        raise ValueError(f"floats with the encoding {at.floats:#x} are not known here; MQENC_FLOAT_IEEE_* and _S390 are")
    return ("<" if at.floats == _FLOAT_REVERSED else ">") + ("f" if size == 4 else "d")  # noqa: PLR2004 - COMP-1
