"""Cuts a rules table into entries, and each entry into tokens with their places.

`mqi.lexer` reads comments, continuation lines and quotes. This module knows no keyword.
Source: IBM q005690, "DLQ handler rules table conventions".
"""

from collections.abc import Iterator, Sequence
from typing import Final

from mqflow.mqi.lexer import BRACKETS, Scanner, Token, TokenKind, continued

__all__ = ("LINE_CHARS_PORTABLE", "entries")

LINE_CHARS_PORTABLE: Final = 72
"""The longest line that the DLQ handler of IBM MQ reads on every platform."""

_SCANNER: Final = Scanner({**BRACKETS, TokenKind.WORD: r"[^\s,()']+"})


def entries(lines: Sequence[str]) -> Iterator[tuple[Token, ...]]:
    """Yield the tokens of each entry in order: of a line and its continuation lines. An entry has at least one token.

    A token `QUOTE` or `MARK` is a mistake, and is the last token of its entry.
    """
    for source in continued(lines, indented_comments=False):
        tokens = [token for token, _, _ in _SCANNER.tokens(source)]
        if source.end and not (tokens and tokens[-1].kind is TokenKind.QUOTE):
            tokens.append(source.end)
        if tokens:  # a line that has only commas has no tokens
            yield tuple(tokens)
