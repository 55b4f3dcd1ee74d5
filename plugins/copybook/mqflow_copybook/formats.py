"""The formats of elementary items: text and numbers, their pictures and their sizes. Knows no bytes.

Sources: the PICTURE and USAGE clauses of Enterprise COBOL, from memory; the sizes are compared with GnuCOBOL (`-std=ibm`).
"""

import re
from typing import Final, assert_never

from msgspec import Struct

__all__ = ("Binary", "Float", "Format", "Number", "Packed", "Text", "Zoned", "picture_format", "size_of")

DIGITS_MAX: Final = 31
BINARY_DIGITS_MAX: Final = 18
_SYMBOL: Final = re.compile(r"([AXSVP9])(?:\((\d{1,7})\))?")


class Text(Struct, frozen=True):
    """PIC X and PIC A."""

    size: int
    #: True if the text is at the right end of its item (JUSTIFIED).
    is_right: bool = False


class Number(Struct, frozen=True, kw_only=True):
    """A decimal number."""

    digits: int
    #: Digits after the decimal point; below 0, the zeros that the picture adds with P.
    scale: int
    signed: bool


class Zoned(Number, frozen=True, kw_only=True):
    """USAGE DISPLAY: a byte for each digit."""

    leading: bool
    separate: bool


class Binary(Number, frozen=True, kw_only=True):
    """COMP, COMP-4, BINARY; COMP-5 if `native`."""

    native: bool


class Packed(Number, frozen=True, kw_only=True):
    """COMP-3, PACKED-DECIMAL: half a byte for each digit, and one for the sign."""


class Float(Struct, frozen=True):
    """COMP-1 (4 bytes) and COMP-2 (8 bytes)."""

    size: int


Format = Text | Zoned | Binary | Packed | Float


def size_of(item: Format) -> int:
    """Return the bytes of an item."""
    match item:
        case Text() | Float():
            return item.size
        case Zoned():
            return item.digits + item.separate
        case Packed():
            return item.digits // 2 + 1
        case Binary():
            return 2 if item.digits <= 4 else 4 if item.digits <= 9 else 8  # noqa: PLR2004 - the steps of USAGE BINARY
        case _:
            assert_never(item)


def picture_format(picture: str, usage: str, *, leading: bool = False, separate: bool = False) -> Format:
    """Return the format of a picture in capitals. `usage` is DISPLAY, COMP, COMP-5 or COMP-3.

    Raises `ValueError` with the reason for every picture that is neither text nor a plain number.
    """
    parts = _SYMBOL.findall(picture)
    if "".join(symbol + (f"({count})" if count else "") for symbol, count in parts) != picture or not picture:
        raise ValueError(f"PIC {picture} is edited, national or unknown; a picture has only X, A, 9, S, V and P here")
    counts = [(symbol, int(count or 1)) for symbol, count in parts]
    size = sum(count for _, count in counts)
    if {"X", "A"} & {symbol for symbol, _ in counts}:
        if {"S", "V", "P"} & {symbol for symbol, _ in counts} or usage != "DISPLAY":
            raise ValueError(f"PIC {picture} is text, and text has no S, V or P and USAGE DISPLAY only")
        return Text(size)
    if size > 2 * DIGITS_MAX:
        raise ValueError(f"PIC {picture} has more than {DIGITS_MAX} digits")
    plain = "".join(symbol * count for symbol, count in counts)
    digits, scale = _digits_and_scale(plain.removeprefix("S"), picture)
    limit = BINARY_DIGITS_MAX if usage in {"COMP", "COMP-5"} else DIGITS_MAX
    if digits > limit:
        raise ValueError(f"PIC {picture} has {digits} digits, and USAGE {usage} takes at most {limit}")
    signed = plain.startswith("S")
    if usage == "COMP-3":
        return Packed(digits=digits, scale=scale, signed=signed)
    if usage == "DISPLAY":
        return Zoned(digits=digits, scale=scale, signed=signed, leading=leading and signed, separate=separate and signed)
    return Binary(digits=digits, scale=scale, signed=signed, native=usage == "COMP-5")


def _digits_and_scale(body: str, picture: str) -> tuple[int, int]:
    """Return the digits that have bytes, and the scale, of a picture without its S."""
    if added := re.fullmatch("V?(P+)(9+)", body):
        return len(added[2]), len(added[1]) + len(added[2])
    if added := re.fullmatch("(9+)(P+)V?", body):
        return len(added[1]), -len(added[2])
    if "9" in body and (plain := re.fullmatch("(9*)(?:V(9*))?", body)):
        fraction = len(plain[2] or "")
        return len(plain[1]) + fraction, fraction
    raise ValueError(f"PIC {picture} is no number: S comes first, V once, and P only before or after all digits")
