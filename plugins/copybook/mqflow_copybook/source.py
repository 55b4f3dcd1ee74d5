"""Splits the text of a copybook into statements. Knows columns, comments and literals; knows no clause.

Source: the reference format of Enterprise COBOL. From memory, compared with GnuCOBOL.
"""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

__all__ = ("CopybookError", "Statement", "statements")

_TOKEN: Final = re.compile(
    r"""(?P<literal>[A-Z]{0,2}(?:"(?:[^"]|"")*"|'(?:[^']|'')*'))|(?P<comment>\*>.*)|(?P<end>\.(?=\s|$))"""
    r"""|(?P<word>(?:(?!\.(?:\s|$))[^\s"'])+)|(?P<open>["'])""",
    re.IGNORECASE,
)
_FIXED_LINE: Final = re.compile(r"\s*|(?:\s{6}|[0-9A-Z@#$]{6})(?:[ *\-/D].*)?", re.IGNORECASE)
_TEXT_BEGIN: Final = 7
_TEXT_END: Final = 72
_NOISE: Final = frozenset({"ARE", "CHARACTER", "EJECT", "IS", "ON", "SKIP1", "SKIP2", "SKIP3", "TIMES"})
"""Words that mean nothing in a data description."""


class CopybookError(ValueError):
    """A copybook cannot be used. The text names the statement and its line, the reason, and the remedy."""


class Statement(Struct, frozen=True):
    """The words up to a period, in capitals; literals as they are."""

    #: The line of the first word, from 1.
    line: int
    words: tuple[str, ...]

    def refused(self, why: str) -> CopybookError:
        """Return the error that says why the statement cannot be used. `why` ends without a period."""
        return CopybookError(f"Line {self.line} of the copybook, {' '.join(self.words)[:100]!r}: {why}.")


def statements(text: str, *, free: bool | None = None) -> Iterator[Statement]:
    """Yield the statements of a copybook. `free` chooses between free form and columns 7 to 72; None decides by the lines.

    Raises `CopybookError` for a literal without an end, and for words after the last period.
    """
    words: list[str] = []
    begin = 0
    for number, line in _lines(text, free=free):
        for token in _TOKEN.finditer(line):
            match token.lastgroup:
                case "end" if words:
                    yield Statement(begin, tuple(words))
                    words = []
                case "word" if (word := token[0].upper().strip(",;")) and word not in _NOISE:
                    begin = begin if words else number
                    words.append(word)
                case "literal":
                    words.append(token[0])
                case "open":
                    raise Statement(number, (*words, token[0])).refused("the literal does not end on this line")
                case _:
                    pass
    if words:
        raise Statement(begin, tuple(words)).refused("the period at its end is missing")


def _lines(text: str, *, free: bool | None) -> Iterator[tuple[int, str]]:
    """Yield each line of text with its number; a continuation is joined to the line before it."""
    lines = text.expandtabs().splitlines()
    if free if free is not None else not all(map(_FIXED_LINE.fullmatch, lines)):
        yield from enumerate(lines, 1)
        return
    waiting: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        indicator, content = line[_TEXT_BEGIN - 1 : _TEXT_BEGIN], line[_TEXT_BEGIN:_TEXT_END]
        if indicator in "*/Dd" and indicator:
            continue
        if indicator == "-" and waiting:
            waiting = (waiting[0], _joined(waiting[1], content.strip()))
            continue
        if waiting:
            yield waiting
        waiting = (number, content)
    if waiting:
        yield waiting


def _joined(before: str, content: str) -> str:
    """Return a line with its continuation. A literal goes on after the quote that begins the continuation."""
    is_literal = content[:1] in {"'", '"'} and before.count(content[0]) % 2
    return before.ljust(_TEXT_END - _TEXT_BEGIN) + content[1:] if is_literal else before.rstrip() + content
