"""Converts attribute values between MQSC words and Python values, according to the table of attributes."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec.structs import fields

from mqflow.embedded.mqsc.commands import Value
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.mqi.attributes.queue import AttributeSpec, QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.lexer import STRING, Token, capitals
from mqflow.mqi.names import is_object_name

__all__ = ("accepted", "printable", "quoted", "read_flag", "read_list", "read_value", "typed", "without_secrets", "word_of")

_DIGITS_MAX: Final = 10
_SECRET: Final = re.compile(rf"(\b(?:PASSWORD|LDAPPWD|KEYRPWD|INITKEY)\s*\(\s*)({STRING}|[^)]*+)", re.IGNORECASE)
_BOOLEANS: Final = frozenset(
    field.name
    for record in (QueueAttributes, QueueManagerAttributes)
    for field in fields(record)
    if isinstance(field.default, bool)
)


def read_value(spec: AttributeSpec, token: Token) -> Value:
    """Return the value of this word, in the type of the record's field. Blanks at the end of a text are removed."""
    text = token.folded.rstrip()
    if spec.chars:
        return _text(spec, text, token)
    if spec.words is not None and (word := capitals(text)) in spec.words:
        return typed(spec, spec.words[word])
    digits = text.removeprefix("-")
    if spec.low < spec.high and digits.isdecimal() and digits.isascii() and len(digits) <= _DIGITS_MAX:
        number = int(text)
        if spec.low <= number <= spec.high:
            return number
    raise RefusedError(token, f"{spec.keyword}({text}) is not valid. {spec.keyword} takes {accepted(spec)}.")


def read_list(spec: AttributeSpec, tokens: Sequence[Token]) -> Value:
    """Return the texts of a list. A single blank gives an empty list."""
    if len(tokens) > spec.items_max:
        raise RefusedError(tokens[spec.items_max], f"{spec.keyword} takes up to {spec.items_max} names.")
    return tuple(text for token in tokens if (text := str(_text(spec, token.folded.rstrip(), token))))


def read_flag(spec: AttributeSpec, word: str) -> Value:
    """Return the value of a word that stands without brackets, for example SHARE or NOSHARE."""
    return typed(spec, (spec.words or {})[word])


def accepted(spec: AttributeSpec) -> str:
    """Return a phrase with the values that the attribute accepts."""
    if spec.object_name:
        return f"a name of up to {spec.chars} of A-Z a-z 0-9 . _ / %, or ' ' for none"
    if spec.chars:
        return f"text of up to {spec.chars} characters, in quotes if it has blanks or small letters"
    phrases = [" or ".join(spec.words)] if spec.words else []
    if spec.low < spec.high:
        phrases.append(f"a number from {spec.low} to {spec.high}")
    return ", or ".join(phrases)


def word_of(spec: AttributeSpec, value: Value | None) -> str:
    """Return the value in the form of MQSC, without quotes; an empty text for None."""
    if value is None:
        return ""
    if spec.words is not None:
        for word, number in spec.words.items():
            if number == value:
                return word
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else str(int(value))


def quoted(text: str) -> str:
    """Return the text as an MQSC string. A character that a string cannot contain, such as a line end, becomes a blank."""
    return "'" + (printable(text).replace("'", "''") or " ") + "'"


def printable(text: str) -> str:
    """Return the text with a blank for each control or formatting character: these can change what a terminal shows."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(character)[0] in "CZ" else character for character in text)


def without_secrets(text: str) -> str:
    """Return the text of a command with an asterisk for each character of a password.

    The embedded queue manager keeps no passwords, but a script for IBM MQ can have them.
    """
    return _SECRET.sub(lambda found: found[1] + "*" * len(found[2]), text)


def typed(spec: AttributeSpec, number: int) -> Value:
    """Return the number as True or False if the field of `spec` is a Boolean, otherwise the number itself."""
    return bool(number) if spec.field in _BOOLEANS else number


def _text(spec: AttributeSpec, text: str, token: Token) -> str:
    if spec.object_name and text and not is_object_name(text):
        raise RefusedError(token, f"{spec.keyword}('{text}') is not a name. {spec.keyword} takes {accepted(spec)}.")
    if len(text) > spec.chars:
        raise RefusedError(token, f"{spec.keyword} is {len(text)} characters long. It takes {accepted(spec)}.")
    return text
