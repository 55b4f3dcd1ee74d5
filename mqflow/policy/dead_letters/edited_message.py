"""The body of a message as text that a person edits, and the message with the edited text.

Only the body changes: descriptor and headers stay byte for byte. This module opens no editor and moves no message.
"""

from mqflow.mqi import ccsid
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import chain
from mqflow.mqi.layout import byte_order
from mqflow.mqi.options import Format

__all__ = ("body_text", "with_text")


def body_text(descriptor: MessageDescriptor, data: bytes) -> str | None:
    """Return the body as text; None if it is no text, or if `with_text` could not give the same bytes back.

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
    """Return the data with this text in place of the body, in the character set of the body.

    Raises `MQIError` 2119 if the character set has no code for a character, and the errors of the headers.
    """
    parts = chain.split(descriptor, data)
    if parts.format == Format.STRING:
        body = ccsid.encode(text, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")
    else:
        body = text.encode()
    return data[: len(data) - len(parts.body)] + body
