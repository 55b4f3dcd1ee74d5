"""The words of a message selector, with their places.

This module knows literals, operators and identifiers; it knows no grammar. Source: IBM q023010, message selector syntax.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from mqflow.mqi.lexer import STRING, Continued, Scanner, Token, TokenKind, capitals

__all__ = ("SelectorError", "Word", "WordKind", "words_of")


class SelectorError(ValueError):
    """A selector has a mistake at `position`, counted in characters from 1."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message, position)
        self.message = message
        self.position = position

    def __str__(self) -> str:
        return f"At character {self.position}: {self.message}"


class WordKind(Enum):
    """The kinds of word."""

    LITERAL = "a value"
    NAME = "the name of a property"
    KEYWORD = "a keyword"
    SYMBOL = "an operator or bracket"
    END = "the end"


class Word(Struct, frozen=True):
    """A word with its place. A literal has a value. Keywords are in capitals."""

    kind: WordKind
    text: str
    position: int
    value: str | bytes | int | float | bool | None = None


KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))
_SCANNER: Final = Scanner(
    {
        TokenKind.BLANK: r"\s+",
        TokenKind.BYTES: r'0[xX]"(?:[0-9A-Fa-f]{2})+"',
        TokenKind.STRING: STRING,
        TokenKind.QUOTE: "'",
        TokenKind.FLOAT: r"(?a:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|\d+[eE][+-]?\d+[dDfF]?|\d+[dDfF])",
        # A zero in front makes the number octal (q023010), so 09 is two words.
        TokenKind.INTEGER: r"0[xX][0-9A-Fa-f]{1,16}[lL]?|0[0-7]{0,22}[lL]?|[1-9][0-9]{0,18}[lL]?",
        TokenKind.WORD: r"(?:[^\W\d]|\$)[\w$]*(?:\.(?:[^\W\d]|\$)[\w$]*)*",
        TokenKind.SYMBOL: r"<>|<=|>=|[=<>()+\-*/,]",
    }
)
_VALUES: Final[Mapping[TokenKind, Callable[[str], str | bytes | int | float]]] = {
    TokenKind.BYTES: lambda text: bytes.fromhex(text[3:-1]),
    TokenKind.STRING: str,
    TokenKind.FLOAT: lambda text: float(text.rstrip("dDfF")),
    TokenKind.INTEGER: lambda text: int(text.rstrip("lL"), 16 if text[:2] in {"0x", "0X"} else 8 if text[0] == "0" else 10),
}
_SHOWN_CHARS: Final = 20


def words_of(text: str) -> list[Word]:
    """Return the words. The last word marks the end. Raises `SelectorError` for a character that belongs to no word."""
    words = [_word(token, text[start:end]) for token, start, end in _SCANNER.tokens(Continued.of(text))]
    return [*words, Word(WordKind.END, "", len(text) + 1)]


def _word(token: Token, written: str) -> Word:
    position = token.column
    if token.kind is TokenKind.QUOTE:
        raise SelectorError("the quote is never closed; a quote inside a string is written twice: 'it''s'", position)
    if token.kind is TokenKind.UNKNOWN:
        raise SelectorError(f"{written[:_SHOWN_CHARS]!r} is no part of a selector", position)
    if token.kind in _VALUES:
        return Word(WordKind.LITERAL, written, position, _VALUES[token.kind](token.text))
    if token.kind is TokenKind.SYMBOL:
        return Word(WordKind.SYMBOL, written, position)
    keyword = capitals(written)
    if keyword not in KEYWORDS:
        return Word(WordKind.NAME, written, position)
    if keyword in {"TRUE", "FALSE"}:
        return Word(WordKind.LITERAL, keyword, position, keyword == "TRUE")
    return Word(WordKind.KEYWORD, keyword, position)
