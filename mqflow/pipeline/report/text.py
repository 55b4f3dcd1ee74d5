"""Makes text from outside safe to show: visible, of limited length, and without effect on the text beside it.

Names of exceptions and handlers come from applications and can contain anything. This file is pure; the page escapes the texts.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from msgspec.structs import asdict, replace

from mqflow.pipeline.report.data import Report, Row

__all__ = ("isolated", "map_texts", "visible")

_CHARS_MAX: Final = 200
_FIRST_STRONG_ISOLATE: Final = chr(0x2068)
_POP_ISOLATE: Final = chr(0x2069)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of invisible characters: controls, marks that change the direction of writing, half surrogate pairs."""
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
_PLAIN: Final = re.compile(r"[ -~]*")


def visible(text: str) -> str:
    """Return the text with each invisible character as a backslash, u and its number. A very long text is cut."""
    if _PLAIN.fullmatch(text) is None:
        text = "".join(f"\\u{ord(each):04x}" if unicodedata.category(each) in _UNSEEN else each for each in text)
    return text if len(text) <= _CHARS_MAX else f"{text[: _CHARS_MAX - 3]}..."


def isolated(text: str) -> str:
    """Isolate a text that contains characters written from right to left, so that the text beside it keeps its place."""
    if any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in text):
        return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"
    return text


def map_texts(report: Report, change: Callable[[str], str]) -> Report:
    """Return the report with `change` applied to every text in its rows."""
    tables = {name: rows for name, rows in asdict(report).items() if isinstance(rows, list) and name != "cut"}
    return replace(report, **{name: [_row(row, change) for row in rows] for name, rows in tables.items()})


def _row(row: Row, change: Callable[[str], str]) -> Row:
    return {name: change(value) if isinstance(value, str) else value for name, value in row.items()}
