"""Finds a text in a message, for the search of the console. Also reads an edited text from a form of a browser. Pure."""

import string
from collections.abc import Iterator
from typing import Any, Final

__all__ = ("found_in", "is_editable", "text_from_form")

_DIGITS_MIN: Final = 8
_ALLOWED: Final = "\n\t"


def found_in(facts: dict[str, Any], text: str) -> Iterator[str]:
    """Yield the name of each part of the message that contains the text: MsgId, CorrelId, a property or the body.

    A text of at least 8 hexadecimal digits finds an identifier that begins or ends with these digits. In a property or the
    body, the text can be at any place, but must have the same upper and lower case.
    """
    digits = text.lower().removeprefix("..")
    if len(digits) >= _DIGITS_MIN and all(letter in string.hexdigits for letter in digits):
        for name, title in (("message_id", "MsgId"), ("correlation_id", "CorrelId")):
            value = facts["descriptor"][name]
            if value.strip("0") and (value.startswith(digits) or value.endswith(digits)):  # zeros are no identifier
                yield title
    for name, value in facts["properties"].items():
        if text in str(value):
            yield f"property {name}"
    if text in facts["body"]:
        yield "body"


def is_editable(text: str) -> bool:
    """Return whether a form of a browser returns this text unchanged: browsers change line ends and control characters."""
    lines = text.replace("\r\n", "\n") if _all_crlf(text) else text
    return all(letter.isprintable() or letter in _ALLOWED for letter in lines)


def text_from_form(original: str, sent: str) -> str:
    """Return the edited text with the line ends of the original text, because a form sends CR LF for each line end."""
    text = sent.replace("\r\n", "\n")
    return text.replace("\n", "\r\n") if _all_crlf(original) else text


def _all_crlf(text: str) -> bool:
    return "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r")
