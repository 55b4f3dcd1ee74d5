"""Text from outside as a report may show it: all of it can be seen, none of it is endless, and it turns nothing around.

Names of exceptions and handlers are whatever somebody's program says. Pure; escaping for a page is the page's business.
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
"""Categories of characters that show nothing: controls, marks that turn the direction of writing, half surrogate pairs."""
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL"})
_PLAIN: Final = re.compile(r"[ -~]*")


def visible(text: str) -> str:
    """Return the text with what cannot be seen written out (a backslash, u and its number), and cut where it is very long."""
    if _PLAIN.fullmatch(text) is None:
        text = "".join(f"\\u{ord(each):04x}" if unicodedata.category(each) in _UNSEEN else each for each in text)
    return text if len(text) <= _CHARS_MAX else f"{text[: _CHARS_MAX - 3]}..."


def isolated(text: str) -> str:
    """Return a text that may be written from right to left so that what stands beside it keeps its place."""
    if any(unicodedata.bidirectional(each) in _RIGHT_TO_LEFT for each in text):
        return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"
    return text


def map_texts(report: Report, change: Callable[[str], str]) -> Report:
    """Return the report with every text of its rows as `change` makes it."""
    tables = {name: rows for name, rows in asdict(report).items() if isinstance(rows, list) and name != "cut"}
    return replace(report, **{name: [_row(row, change) for row in rows] for name, rows in tables.items()})


def _row(row: Row, change: Callable[[str], str]) -> Row:
    return {name: change(value) if isinstance(value, str) else value for name, value in row.items()}
