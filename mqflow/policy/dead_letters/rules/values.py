"""Reads the values of a rules table: names, numbers, symbols and patterns. An error names the accepted values.

This module reads the text between the brackets of a keyword. Every function that reads a value raises `RefusedValueError` if
the value is not accepted.
Source: IBM q005690, q005680, q005590.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from mqflow.mqi.lexer import Token, TokenKind
from mqflow.mqi.names import is_object_name
from mqflow.policy.dead_letters.rules.records import (
    DESTINATION_QUEUE,
    DESTINATION_QUEUE_MANAGER,
    REPLY_QUEUE,
    REPLY_QUEUE_MANAGER,
)
from mqflow.policy.dead_letters.rules.vocabulary import INTEGER_MAX, NAME_CHARS_MAX, PATTERNS, Field, symbols_of

__all__ = (
    "RefusedValueError",
    "Value",
    "chosen",
    "condition_value",
    "forward_queue",
    "forward_queue_manager",
    "input_name",
    "shown",
    "whole_number",
)

Value: TypeAlias = Callable[[str, Token], object]

_SHOWN_CHARS_MAX: Final = 60
_NAME: Final = "1 to 48 of A-Z a-z 0-9 . _ / %"
_UNQUOTED: Final = re.compile(r"[A-Za-z0-9./_%*?&]*")
_NUMBER_CHARS_MAX: Final = 20
"""Far more digits than any accepted number has."""

_NOT_ACCEPTED: Final = 8747
_TOO_LONG: Final = 8752
_OUT_OF_RANGE: Final = 8757


class RefusedValueError(Exception):
    """A value is refused. This error does not leave the package: `parse` turns it into a `Problem`."""

    def __init__(self, text: str, number: int = 0, hints: Sequence[str] = ()) -> None:
        self.text = text
        #: The number of the message that IBM's handler writes, without "AMQ"; 0 if the number is not known.
        self.number = number
        #: The accepted words, for a hint with the most similar word.
        self.hints = hints


def shown(text: str) -> str:
    """Return the text in quotes, shortened if it is long."""
    return f"'{text}'" if len(text) <= _SHOWN_CHARS_MAX else f"'{text[:_SHOWN_CHARS_MAX]}...'"


def chosen(word: str, token: Token, accepted: Sequence[str]) -> str:
    """Return the value. It must be one of the accepted words."""
    text = token.folded
    if text not in accepted:
        raise RefusedValueError(
            f"{word} does not take {shown(token.text)}. It takes {', '.join(accepted)}.", _NOT_ACCEPTED, accepted
        )
    return text


def whole_number(word: str, token: Token, least: int, words: Sequence[str] = ()) -> int | str:
    """Return the value: a number from `least` to 999 999 999, or one of `words`."""
    text = token.folded
    if text in words:
        return text
    accepted = ", ".join((*words, f"a whole number from {least} to {INTEGER_MAX}"))
    if not _is_number(text):
        raise RefusedValueError(f"{word} does not take {shown(token.text)}. It takes {accepted}.", _NOT_ACCEPTED, words)
    return _in_range(word, text, least, accepted)


def input_name(word: str, token: Token) -> str:
    """Return the name of a queue or queue manager; empty, for the default, if the value begins with a blank."""
    text = token.folded
    return "" if text.startswith(" ") else _name(word, text, token, "' ' for the default")


def forward_queue(word: str, token: Token) -> str:
    """Return the queue to forward to: a name, or a reference such as &REPLYQ."""
    return _name(word, token.folded, token, f"{DESTINATION_QUEUE}, {REPLY_QUEUE}", (DESTINATION_QUEUE, REPLY_QUEUE))


def forward_queue_manager(word: str, token: Token) -> str:
    """Return the queue manager to forward to; empty for the local one."""
    text = token.folded
    references = (DESTINATION_QUEUE_MANAGER, REPLY_QUEUE_MANAGER)
    more = f"{DESTINATION_QUEUE_MANAGER}, {REPLY_QUEUE_MANAGER}, ' ' for the local queue manager"
    return _name(word, text, token, more, references) if text.strip(" ") else ""


def condition_value(field: Field, word: str, token: Token) -> str | int:
    """Return the value to compare with the field: a number, or a pattern without trailing blanks. ``*`` matches any value."""
    pattern = PATTERNS[field]
    text = token.folded
    if not pattern.chars_max:
        return "*" if text == "*" else _number(word, text, token, pattern.prefixes)
    if token.kind is not TokenKind.STRING and not _UNQUOTED.fullmatch(token.text):
        accepted = "letters, digits and . / _ % * ? &"
        raise RefusedValueError(
            f"The value of {word}, {shown(token.text)}, must be in quotes: without them it can hold {accepted} only."
        )
    # Source: q005690, "not counting the asterisks", because an asterisk may match no character.
    chars = len(text) - text.count("*")
    if chars > pattern.chars_max:
        problem = (
            f"{word} is a field of {pattern.chars_max} characters, and {shown(token.text)} has {chars}, asterisks not counted."
        )
        raise RefusedValueError(problem, _TOO_LONG)
    return text.rstrip(" ")


def _name(word: str, text: str, token: Token, more: str, references: Sequence[str] = ()) -> str:
    name = text.rstrip(" ")
    if name in references or is_object_name(name):
        return name
    accepted = f"It takes a name ({_NAME}), {more}."
    if len(name) > NAME_CHARS_MAX:
        raise RefusedValueError(
            f"{word} is a field of {NAME_CHARS_MAX} characters, and {shown(token.text)} has {len(name)}.", _TOO_LONG
        )
    raise RefusedValueError(f"{word} does not take {shown(token.text)}. {accepted}", _NOT_ACCEPTED, references)


def _number(word: str, text: str, token: Token, prefixes: Sequence[str]) -> int:
    for prefix in prefixes:
        if text.startswith(prefix):
            known = symbols_of(prefix)
            if text in known:
                return known[text]
            raise RefusedValueError(f"{word}: there is no {shown(text)}.", _NOT_ACCEPTED, tuple(known))
    accepted = f"a number from 0 to {INTEGER_MAX}, a symbolic name ({' or '.join(f'{prefix}*' for prefix in prefixes)}), or *"
    if not _is_number(text):
        raise RefusedValueError(f"{word} does not take {shown(token.text)}. It takes {accepted}.", _NOT_ACCEPTED)
    return _in_range(word, text, 0, accepted)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _in_range(word: str, text: str, least: int, accepted: str) -> int:
    if len(text) > _NUMBER_CHARS_MAX or not least <= int(text) <= INTEGER_MAX:
        raise RefusedValueError(f"{word} cannot be {shown(text)}. It takes {accepted}.", _OUT_OF_RANGE)
    return int(text)
