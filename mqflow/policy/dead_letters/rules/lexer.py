"""Takes a rules table apart: lines into entries, entries into words, strings and brackets, each knowing where it stands.

Knows comments, continuation and quoting; knows no keyword. Any text is taken, in time linear in its length.
Source: IBM q005690, "DLQ handler rules table conventions".
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct

__all__ = ("LINE_CHARS_PORTABLE", "Entry", "Token", "TokenKind", "entries", "source_lines")

LINE_CHARS_PORTABLE: Final = 72
"""The longest line that every platform's handler takes."""

# Possessive, so that an unclosed quote is found in one pass and not by trying every shorter string.
_TOKEN: Final = re.compile(
    r"(?P<BLANK>[\s,]+)|(?P<OPEN>\()|(?P<CLOSE>\))|'(?P<STRING>(?:[^']|'')*+)'|(?P<QUOTE>')|(?P<WORD>[^\s,()']+)"
)


class TokenKind(Enum):
    """What a token is; blanks and commas only separate, and are not kept."""

    WORD = auto()
    STRING = auto()
    OPEN = auto()
    CLOSE = auto()
    #: A quote that is never closed; nothing follows it.
    QUOTE = auto()
    #: A continuation that nothing continues; nothing follows it.
    MARK = auto()


class Token(Struct, frozen=True, gc=False):
    """A word, a string or a bracket."""

    kind: TokenKind
    #: As written; of a string, what stands between its quotes, with '' taken as one quote.
    text: str
    #: Line and column of its first character, from 1.
    line: int
    column: int


class Entry(Struct, frozen=True):
    """One entry, not yet understood: what stands on a line and its continuations. Never empty."""

    tokens: tuple[Token, ...]


class _Piece(Struct, frozen=True, gc=False):
    """What one line adds to an entry."""

    text: str
    line: int
    #: The column of its first character, from 1.
    column: int


def source_lines(text: str) -> list[str]:
    """Return the lines of a table, without their ends, and without the mark that some editors put before UTF-8."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def entries(lines: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries of a table, in order."""
    for pieces, mark in _continued(lines):
        tokens = tuple(_tokens(pieces, mark))
        if tokens:
            yield Entry(tokens)


def _continued(lines: Sequence[str]) -> Iterator[tuple[list[_Piece], str]]:
    """Put continued lines together: ``+`` goes on at the first non-blank of the next line, ``-`` in its column 1.

    Comments and blank lines belong to nobody, between continued lines too. The mark is what the table ends with, if it does.
    """
    pieces: list[_Piece] = []
    mark = ""
    for number, line in enumerate(lines, start=1):
        if line.startswith("*") or not line.strip():
            continue
        start = 0 if mark == "-" else len(line) - len(line.lstrip())
        kept = line.rstrip()
        mark = kept[-1] if kept[-1] in "+-" else ""
        pieces.append(_Piece(kept[start:].removesuffix(mark), number, start + 1))
        if not mark:
            yield pieces, ""
            pieces = []
    if pieces:
        yield pieces, mark


def _tokens(pieces: Sequence[_Piece], mark: str) -> Iterator[Token]:
    text = "".join(piece.text for piece in pieces)
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece.text))
    last = pieces[-1]
    for match in _TOKEN.finditer(text):
        name = match.lastgroup or ""
        if name == "BLANK":
            continue
        # A piece may be empty: the last one that begins here is the one the character is in.
        index = bisect_right(starts, match.start(), hi=len(pieces)) - 1
        column = pieces[index].column + match.start() - starts[index]
        content = match["STRING"].replace("''", "'") if name == "STRING" else match[name]
        yield Token(TokenKind[name], content, pieces[index].line, column)
        if name == "QUOTE":
            return
    if mark:
        yield Token(TokenKind.MARK, mark, last.line, last.column + len(last.text))
