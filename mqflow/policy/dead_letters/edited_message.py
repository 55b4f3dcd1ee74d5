"""Shows the body of a message as text that a person can edit, and makes the message with the edited text.

Only the body changes: descriptor and headers keep the same bytes. This module opens no editor and moves no message.
"""

from mqflow.mqi import ccsid
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import chain
from mqflow.mqi.layout import byte_order
from mqflow.mqi.options import Format

__all__ = ("body_text", "with_text")


def body_text(descriptor: MessageDescriptor, data: bytes) -> str | None:
    """Return the body as text; None if the body is not text, or if `with_text` cannot restore the same bytes from the text.

    A body of format MQSTR is text in its character set. Any other body is text if it is printable UTF-8.
    """
    try:
        parts = chain.split(descriptor, data)
        if parts.format == Format.STRING:
            text = ccsid.decode(parts.body, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")
        else:
            text = parts.body.decode()
            if not all(letter.isprintable() or letter in "\r\n\t" for letter in text):
                return None
        return text if with_text(descriptor, data, text) == data else None
    except (MQIError, UnicodeError):
        return None


def with_text(descriptor: MessageDescriptor, data: bytes, text: str) -> bytes:
    """Return the message data with this text as the body, in the character set of the body.

    Raises `MQIError` 2119 if the character set lacks a character of the text, or the error of a header that cannot be parsed.
    """
    parts = chain.split(descriptor, data)
    if parts.format == Format.STRING:
        body = ccsid.encode(text, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")
    else:
        body = text.encode()
    return data[: len(data) - len(parts.body)] + body
