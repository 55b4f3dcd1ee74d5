"""Splits a script into commands, and each command into tokens with their positions.

`mqi.lexer` reads continuation lines, quotes and the semicolon. This file knows no keyword.
Source: IBM q085110 "Building command scripts", q085100 "Rules for using MQSC commands".
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mqflow.mqi.lexer import BRACKETS, Continued, Scanner, Token, TokenKind, continued, source_lines

__all__ = ("LINE_CHARS_MAX", "RefusedError", "Sentence", "is_unfinished", "sentences")

LINE_CHARS_MAX: Final = 2048
"""The longest line of a script on Multiplatforms."""

_SCANNER: Final = Scanner({**BRACKETS, TokenKind.SEMICOLON: ";", TokenKind.WORD: r"[^\s,();']+"})


class Sentence(Struct, frozen=True):
    """The tokens of one command. Never empty."""

    tokens: tuple[Token, ...]
    #: The text of the command, with its continuation lines joined.
    text: str


class RefusedError(Exception):
    """The error of an invalid command: `token` is the place of the error. `parse` turns it into a `SyntaxProblem`."""

    def __init__(self, token: Token, message: str) -> None:
        self.token = token
        self.message = message
        super().__init__(token, message)


def sentences(lines: Sequence[str], line_chars_max: int = LINE_CHARS_MAX) -> Iterator[Sentence | RefusedError]:
    """Yield the commands of a script in order; a `RefusedError` for a command without an end, or with too long a line."""
    for source in continued(lines, indented_comments=True):
        trouble = _trouble(source, lines, line_chars_max)
        if trouble is None:
            yield from _sentences(source)
        else:
            yield trouble


def is_unfinished(text: str) -> bool:
    """Return whether the last command continues on a line that is not in the text. A prompt must then ask for this line."""
    return any(source.mark for source in continued(source_lines(text), indented_comments=True))


def _trouble(source: Continued, lines: Sequence[str], line_chars_max: int) -> RefusedError | None:
    for piece in source.pieces:
        if len(lines[piece.line - 1]) > line_chars_max:
            at = Token(TokenKind.WORD, piece.text, piece.line, line_chars_max + 1)
            return RefusedError(at, f"The line is longer than {line_chars_max} characters: continue the command with +.")
    if source.end:
        return RefusedError(source.end, f"The script ends, but '{source.mark}' says that the command goes on.")
    return None


def _sentences(source: Continued) -> Iterator[Sentence | RefusedError]:
    text = source.text
    tokens: list[Token] = []
    begin = 0
    for token, start, end in _SCANNER.tokens(source):
        if token.kind is TokenKind.SEMICOLON:
            if tokens:
                yield Sentence(tuple(tokens), text[begin:start].strip())
            tokens, begin = [], end
        elif token.kind is TokenKind.QUOTE:
            yield RefusedError(token, "The quote is never closed. A quote inside a string is written twice: 'it''s'.")
            return
        else:
            tokens.append(token)
    if tokens:
        yield Sentence(tuple(tokens), text[begin:].strip())
