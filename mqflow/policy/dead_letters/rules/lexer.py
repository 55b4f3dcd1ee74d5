"""Cuts a rules table into entries, and each entry into tokens with their places.

This module knows comments, continuation and quotes by way of `mqi.lexer`; it knows no keyword.
Source: IBM q005690, "DLQ handler rules table conventions".
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mqflow.mqi.lexer import BRACKETS, Scanner, Token, TokenKind, continued

__all__ = ("LINE_CHARS_PORTABLE", "Entry", "entries")

LINE_CHARS_PORTABLE: Final = 72
"""The longest line that the handler of every platform reads."""

_SCANNER: Final = Scanner({**BRACKETS, TokenKind.WORD: r"[^\s,()']+"})


class Entry(Struct, frozen=True):
    """The tokens of one entry: a line and its continuations. Never empty."""

    tokens: tuple[Token, ...]


def entries(lines: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries of a table in order. Only the tokens `QUOTE` and `MARK` are mistakes; each is the last of its entry."""
    for source in continued(lines, indented_comments=False):
        tokens = [token for token, _, _ in _SCANNER.tokens(source)]
        if source.end and not (tokens and tokens[-1].kind is TokenKind.QUOTE):
            tokens.append(source.end)
        if tokens:  # a line of commas alone has none
            yield Entry(tuple(tokens))
