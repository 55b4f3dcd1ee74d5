"""Takes a script apart: lines into commands, commands into words, strings and brackets, each knowing where it stands.

Knows comments, continuation, quoting and the semicolon; knows no keyword. Any text is taken, in time linear in its length.
Source: IBM q085110 "Building command scripts", q085100 "Rules for using MQSC commands".
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct

__all__ = ("LINE_CHARS_MAX", "RefusedError", "Sentence", "Token", "TokenKind", "is_unfinished", "sentences", "source_lines")

LINE_CHARS_MAX: Final = 2048
"""The longest line a script may have on Multiplatforms."""

# Possessive, so that an unclosed quote is found in one pass and not by trying every shorter string.
_TOKEN: Final = re.compile(
    r"(?P<BLANK>[\s,]+)|(?P<OPEN>\()|(?P<CLOSE>\))|(?P<END>;)|'(?P<STRING>(?:[^']|'')*+)'|(?P<QUOTE>')|(?P<WORD>[^\s,();']+)"
)


class TokenKind(Enum):
    """What a token is; blanks and commas only separate, and are not kept."""

    WORD = auto()
    STRING = auto()
    OPEN = auto()
    CLOSE = auto()


class Token(Struct, frozen=True, gc=False):
    """A word, a string or a bracket."""

    kind: TokenKind
    #: As written; of a string, what stands between its quotes, with '' taken as one quote.
    text: str
    #: Line and column of its first character, from 1.
    line: int
    column: int

    @property
    def folded(self) -> str:
        """What a queue manager takes it for: in capitals, unless it was quoted."""
        return self.text if self.kind is TokenKind.STRING else self.text.upper()


class Sentence(Struct, frozen=True):
    """One command, not yet understood. Never empty."""

    tokens: tuple[Token, ...]
    #: The command in one line, as its continuations put it together.
    text: str


class RefusedError(Exception):
    """A command cannot be understood, and where. Never leaves this package: `parse` makes a `SyntaxProblem` of it."""

    def __init__(self, token: Token, message: str) -> None:
        self.token = token
        self.message = message
        super().__init__(token, message)


class _Piece(Struct, frozen=True, gc=False):
    """What one line adds to a command."""

    text: str
    line: int
    #: The column of its first character, from 1.
    column: int


def source_lines(text: str) -> list[str]:
    """Return the lines of a script, without their ends."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def sentences(lines: Sequence[str]) -> Iterator[Sentence | RefusedError]:
    """Yield the commands of a script, in order; a `RefusedError` in place of one that has no end, or a line too long."""
    for pieces in _commands(lines):
        trouble = _trouble(pieces, lines)
        if trouble is None:
            yield from _sentences(pieces)
        else:
            yield trouble


def is_unfinished(text: str) -> bool:
    """Return whether the script ends in a continuation: a person at a prompt has more to type."""
    lines = source_lines(text)
    last = max((pieces[-1].line for pieces in _commands(lines)), default=0)
    return last > 0 and _mark(lines[last - 1]) != ""


def _commands(lines: Sequence[str]) -> Iterator[list[_Piece]]:
    """Put continued lines together. Comment lines and blank lines between them belong to nobody."""
    pieces: list[_Piece] = []
    mark = ""
    for number, line in enumerate(lines, start=1):
        content = line.strip()
        # Inside a command a comment starts in column 1 only: elsewhere the asterisk may be a generic name.
        if not content or line.startswith("*") or (not pieces and content.startswith("*")):
            continue
        start = 0 if mark == "-" else len(line) - len(line.lstrip())
        mark = _mark(line)
        pieces.append(_Piece(line.rstrip()[start:].removesuffix(mark), number, start + 1))
        if not mark:
            yield pieces
            pieces = []
    if pieces:
        yield pieces


def _mark(line: str) -> str:
    """Return how the line says that its command goes on: ``+``, ``-``, or not at all."""
    last = line.rstrip()[-1:]
    return last if last in {"+", "-"} else ""


def _trouble(pieces: Sequence[_Piece], lines: Sequence[str]) -> RefusedError | None:
    for piece in pieces:
        if len(lines[piece.line - 1]) > LINE_CHARS_MAX:
            at = Token(TokenKind.WORD, piece.text, piece.line, LINE_CHARS_MAX + 1)
            return RefusedError(at, f"The line is longer than {LINE_CHARS_MAX} characters: continue the command with +.")
    last = pieces[-1]
    mark = _mark(lines[last.line - 1])
    if mark:
        at = Token(TokenKind.WORD, mark, last.line, last.column + len(last.text))
        return RefusedError(at, f"The script ends where '{mark}' says that the command goes on.")
    return None


def _sentences(pieces: Sequence[_Piece]) -> Iterator[Sentence | RefusedError]:
    text = "".join(piece.text for piece in pieces)
    starts = [0]
    for piece in pieces[:-1]:
        starts.append(starts[-1] + len(piece.text))
    tokens: list[Token] = []
    begin = 0
    for match in _TOKEN.finditer(text):
        name = match.lastgroup or ""
        if name == "BLANK":
            continue
        if name == "END":
            if tokens:
                yield Sentence(tuple(tokens), text[begin : match.start()].strip())
            tokens, begin = [], match.end()
            continue
        index = bisect_right(starts, match.start()) - 1
        column = pieces[index].column + match.start() - starts[index]
        if name == "QUOTE":
            at = Token(TokenKind.STRING, "'", pieces[index].line, column)
            yield RefusedError(at, "The quote is never closed. A quote inside a string is written twice: 'it''s'.")
            return
        content = match["STRING"].replace("''", "'") if name == "STRING" else match[name]
        tokens.append(Token(TokenKind[name], content, pieces[index].line, column))
    if tokens:
        yield Sentence(tuple(tokens), text[begin:].strip())
