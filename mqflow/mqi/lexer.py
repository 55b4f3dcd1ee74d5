"""Cuts the text of MQSC scripts, of rules tables of dead-letter queues and of message selectors into tokens with their places.

A language is a table of token kinds and regular expressions. Scripts and rules tables also share the rules for lines: comments,
continuation and quotes. This module knows no keyword and no grammar. It accepts any text, in time linear in the text's length.
Source: IBM q085110, q085100 (MQSC), q005690 (rules tables).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Final

from msgspec import Struct

__all__ = (
    "BRACKETS",
    "STRING",
    "Continued",
    "Scanner",
    "Token",
    "TokenKind",
    "capitals",
    "continued",
    "mark_of",
    "source_lines",
)


class TokenKind(Enum):
    """The kinds of token of all three languages."""

    #: Text between tokens. The scanner does not yield it.
    BLANK = auto()
    WORD = auto()
    STRING = auto()
    OPEN = auto()
    CLOSE = auto()
    #: Ends a command of a script.
    SEMICOLON = auto()
    #: A quote that is never closed. No token follows.
    QUOTE = auto()
    #: A continuation mark without a next line. No token follows.
    MARK = auto()
    BYTES = auto()
    FLOAT = auto()
    INTEGER = auto()
    SYMBOL = auto()
    #: Text that no expression of the table matches. No token follows.
    UNKNOWN = auto()


class Token(Struct, frozen=True, gc=False):
    """A word, a string, a bracket, or a token of another kind in the table of the language."""

    kind: TokenKind
    #: The text as written. For a string, the text between its quotes, with '' read as one quote.
    text: str
    #: Line and column of its first character, from 1.
    line: int
    column: int

    @property
    def folded(self) -> str:
        """The text as a queue manager reads it: in capitals, unless it is quoted."""
        return self.text if self.kind is TokenKind.STRING else capitals(self.text)


def capitals(text: str) -> str:
    """Return the text in capitals. A letter outside ASCII never becomes an ASCII letter: "ß" does not become "SS"."""
    return text.upper() if text.isascii() else "".join(map(_capital, text))


def _capital(letter: str) -> str:
    capital = letter.upper()
    return letter if capital.isascii() and not letter.isascii() else capital


class _Piece(Struct, frozen=True, gc=False):
    """The part of a line that belongs to the text, and its place."""

    text: str
    line: int
    #: The column of its first character, from 1.
    column: int


class Continued(Struct, frozen=True):
    """A line and the lines that continue it. Never empty."""

    pieces: Sequence[_Piece]
    #: The continuation mark at the end of the last line, if no line continues it.
    mark: str = ""

    @property
    def text(self) -> str:
        """The joined text of the lines."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def end(self) -> Token | None:
        """The continuation mark without a next line, or None."""
        last = self.pieces[-1]
        return Token(TokenKind.MARK, self.mark, last.line, last.column + len(last.text)) if self.mark else None

    @classmethod
    def of(cls, text: str) -> "Continued":
        """Return the text as one line, even if it contains line ends."""
        return cls((_Piece(text, 1, 1),))


# Possessive, so that an unclosed quote is found in one pass and not by trying every shorter string.
STRING: Final = r"'(?:[^']|'')*+'"
BRACKETS: Final[Mapping[TokenKind, str]] = {
    TokenKind.BLANK: r"[\s,]+",
    TokenKind.OPEN: r"\(",
    TokenKind.CLOSE: r"\)",
    TokenKind.STRING: STRING,
    TokenKind.QUOTE: r"'",
}
"""The tokens that scripts and rules tables share: keywords with values in brackets, where a comma is a blank."""

_LAST: Final = frozenset({TokenKind.QUOTE, TokenKind.UNKNOWN})


class Scanner:
    """Cuts text into the tokens of one language."""

    def __init__(self, table: Mapping[TokenKind, str]) -> None:
        """Take the regular expression of each kind of token. The scanner tries the expressions in this order."""
        self._table = table

    @cached_property
    def _match(self) -> Callable[[str, int], re.Match[str] | None]:
        # Compiled for the first text: most applications have no script, no rules table and no selector.
        return re.compile("|".join(f"(?P<{kind.name}>{expression})" for kind, expression in self._table.items())).match

    def tokens(self, source: Continued) -> Iterator[tuple[Token, int, int]]:
        """Yield each token, and where it starts and ends in `source.text`."""
        text = source.text
        starts = [0]
        for piece in source.pieces[:-1]:
            starts.append(starts[-1] + len(piece.text))
        at = 0
        while at < len(text):
            match = self._match(text, at)
            kind = TokenKind[match.lastgroup or ""] if match else TokenKind.UNKNOWN
            found, start, at = (match[0], at, match.end()) if match else (text[at:], at, len(text))
            if kind is TokenKind.BLANK:
                continue
            if kind is TokenKind.STRING:
                found = found[1:-1].replace("''", "'")
            # A piece may be empty. If several pieces start here, the last piece has the character.
            index = bisect_right(starts, start) - 1
            piece = source.pieces[index]
            yield Token(kind, found, piece.line, piece.column + start - starts[index]), start, at
            if kind in _LAST:
                return


def source_lines(text: str) -> list[str]:
    """Return the lines of a file, without line ends, and without the byte order mark that some editors put before UTF-8."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def mark_of(line: str) -> str:
    """Return the mark that continues the line: ``+``, ``-`` or nothing."""
    last = line.rstrip()[-1:]
    return last if last in {"+", "-"} else ""


def continued(lines: Sequence[str], *, indented_comments: bool) -> Iterator[Continued]:
    """Join continued lines: after ``+`` from the first non-blank of the next line, after ``-`` from column 1.

    Comments and blank lines are left out, also between continued lines. An asterisk in column 1 starts a comment. If
    `indented_comments` is set, an asterisk behind blanks starts a comment too. Between continued lines, an asterisk behind
    blanks starts no comment, because it may be a name.
    """
    pieces: list[_Piece] = []
    mark = ""
    for number, line in enumerate(lines, start=1):
        content = line.strip()
        if not content or line.startswith("*") or (indented_comments and not pieces and content.startswith("*")):
            continue
        start = 0 if mark == "-" else len(line) - len(line.lstrip())
        mark = mark_of(line)
        pieces.append(_Piece(line.rstrip()[start:].removesuffix(mark), number, start + 1))
        if not mark:
            yield Continued(pieces)
            pieces = []
    if pieces:
        yield Continued(pieces, mark)
