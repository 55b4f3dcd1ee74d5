"""The words of a message selector, with their places.

Knows literals, operators and identifiers; knows no grammar. Source: IBM q023010, message selector syntax.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

__all__ = ("SelectorError", "Word", "WordKind", "words_of")


class SelectorError(ValueError):
    """A selector that makes no sense, and from which character on (counted from 1)."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return f"At character {self.position}: {self.message}"


class WordKind(Enum):
    """What a word is."""

    LITERAL = "a value"
    NAME = "the name of a property"
    KEYWORD = "a keyword"
    SYMBOL = "an operator or bracket"
    END = "the end"


class Word(Struct, frozen=True):
    """A word. Of a literal `value` is what it stands for; keywords are in capitals."""

    kind: WordKind
    text: str
    position: int
    value: str | bytes | int | float | bool | None = None


KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))
_WORD: Final = re.compile(
    r"""\s*(?:
    (?P<bytes>0[xX]"(?:[0-9A-Fa-f]{2})+")
    | (?P<string>'(?:[^']|'')*')
    | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|\d+[eE][+-]?\d+[dDfF]?|\d+[dDfF])
    | (?P<integer>0[xX][0-9A-Fa-f]{1,16}[lL]?|\d{1,19}[lL]?)
    | (?P<name>[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)
    | (?P<symbol><>|<=|>=|[=<>()+\-*/,])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
_VALUES: Final[Mapping[str, Callable[[str], str | bytes | int | float]]] = {
    "bytes": lambda text: bytes.fromhex(text[3:-1]),
    "string": lambda text: text[1:-1].replace("''", "'"),
    "float": lambda text: float(text.rstrip("dDfF")),
    "integer": lambda text: int(text.rstrip("lL"), 16 if text[:2] in {"0x", "0X"} else 10),
}
_KINDS: Final = {"name": WordKind.NAME, "symbol": WordKind.SYMBOL, "end": WordKind.END}
_SHOWN_CHARS: Final = 20


def words_of(text: str) -> list[Word]:
    """Return the words; the last is the end. Raises `SelectorError` where a character belongs to none."""
    words: list[Word] = []
    position = 0
    while not words or words[-1].kind is not WordKind.END:
        found = _WORD.match(text, position)
        if found is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise SelectorError(f"{text[start : start + _SHOWN_CHARS]!r} is no part of a selector", start + 1)
        words.append(_word(found))
        position = found.end()
    return words


def _word(found: re.Match[str]) -> Word:
    group = found.lastgroup or "end"
    text, position = found[group], found.start(group) + 1
    if group in _VALUES:
        return Word(WordKind.LITERAL, text, position, _VALUES[group](text))
    keyword = text.upper()
    if group != "name" or keyword not in KEYWORDS:
        return Word(_KINDS[group], text, position)
    if keyword in {"TRUE", "FALSE"}:
        return Word(WordKind.LITERAL, keyword, position, keyword == "TRUE")
    return Word(WordKind.KEYWORD, keyword, position)
