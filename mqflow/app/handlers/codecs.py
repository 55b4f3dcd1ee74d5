"""Converts a body to a payload and back. Each payload type has one decoder, which is made when its listener is declared.

The annotation chooses the decoder; the message does not. `bytes` is the body and `str` is its text. Any other type is read from
JSON: by pydantic for its own models, and otherwise by msgspec (Struct, dataclass, TypedDict, dict, list ...). An application
can have its own codec, an object with `decode` and `encode`.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.mistakes import check_floats
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format
from mqflow.policy.poison.outcomes import UndecodableError

__all__ = ("CCSID_UTF8", "Codec", "Decode", "Encoded", "decoder_for", "encode")

CCSID_UTF8: Final = 1208
_UTF8: Final = frozenset({0, CCSID_UTF8, 367})
"""Character sets in which JSON is UTF-8 without conversion; 0 is the queue manager's character set, here 1208."""
_PLAIN: Final = frozenset({Format.NONE, Format.STRING})

_has_null: Final = re.compile(b"null").search  # a third of the time of `in`

Decode = Callable[[Message], Any]
Encoded = tuple[bytes, str, int] | tuple[bytes, str, int, int]
"""Body, format and character set of a message, and perhaps its encoding."""


class Codec(Protocol):
    """Decodes and encodes the payloads of a listener or a publisher whose messages have a format of their own."""

    def decode(self, message: Message, payload_type: Any) -> Any:
        """Return the payload. A `ValueError`, a `TypeError` or an `UndecodableError` makes the message undecodable."""
        ...

    def encode(self, payload: Any) -> Encoded:
        """Return body, format (MQFMT_*) and character set. If the body has binary numbers, add the encoding (MQENC_*).

        Without the encoding, the descriptor has MQENC_NATIVE, or the fields of the keyword `descriptor` of the put.
        """
        ...


def decoder_for(payload_type: Any, codec: Codec | None = None) -> Decode:
    """Return a function that makes a payload from a message. It raises `UndecodableError` if a body cannot be decoded."""
    if codec is not None:
        return _guarded(lambda message: codec.decode(message, payload_type))
    if payload_type is bytes:
        return _guarded(lambda message: message.body)
    if payload_type is str:
        return _guarded(lambda message: message.text())
    if hasattr(payload_type, "model_validate_json"):  # a pydantic model; without pydantic there is no such class
        validate = payload_type.model_validate_json
        return _guarded(lambda message: validate(_json(message)))
    decode = msgspec.json.Decoder(payload_type).decode

    guarded = _guarded(lambda message: decode(_json(message)))

    def decode_json(message: Message) -> Any:
        # Most messages are plain and in UTF-8. Their data are decoded without a further call.
        descriptor = message.descriptor
        if descriptor.format in _PLAIN and descriptor.ccsid in _UTF8:
            try:
                return decode(message.data)
            except (ValueError, TypeError, RecursionError, ArithmeticError, LookupError):
                pass  # decoded again below, for an error that gives the reason
        return guarded(message)

    return decode_json


def encode(payload: Any, codec: Codec | str | None = None) -> Encoded:
    """Return body, format and character set for a payload: bytes unchanged, text and JSON as UTF-8 in MQSTR.

    Raises `ConfigurationError` if the codec of a put is a name: only declarations look up names, once. Raises `ValueError` for
    nan and inf, which JSON does not have.
    """
    if codec is not None:
        if isinstance(codec, str) or not hasattr(codec, "encode"):  # a `str` has an `encode` of its own
            problem = "the codec of a put is an object. App, listener and publisher also take the name of a plugin"
            raise ConfigurationError(f"codec={codec!r}: {problem}.")
        return codec.encode(payload)
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), Format.NONE, 0
    if isinstance(payload, str):
        return payload.encode(), Format.STRING, CCSID_UTF8
    if hasattr(payload, "model_dump_json"):  # an instance of a pydantic model, as above
        body = payload.model_dump_json().encode()
        if _has_null(body) and "ser_json_inf_nan" not in payload.model_config:  # otherwise the model says how to write nan
            check_floats(payload.model_dump())
        return body, Format.STRING, CCSID_UTF8
    body = msgspec.json.encode(payload)
    if _has_null(body):  # msgspec writes null for None, and also for nan and inf
        check_floats(payload)
    return body, Format.STRING, CCSID_UTF8


def _json(message: Message) -> bytes:
    """Return the body, which is JSON, converted from the character set of the message to UTF-8."""
    if message.descriptor.format in _PLAIN:
        return message.data if message.descriptor.ccsid in _UTF8 else message.text().encode()
    return message.body if message.parts.ccsid in _UTF8 else message.text().encode()


def _guarded(decode: Decode) -> Decode:
    def guarded(message: Message) -> Any:
        try:
            return decode(message)
        except MQIError as error:
            raise UndecodableError(str(error)) from error
        except (ValueError, TypeError, RecursionError, ArithmeticError, LookupError) as error:
            raise UndecodableError(_cause(error)) from error

    return guarded


def _cause(error: Exception) -> str:
    """Return why a body cannot be decoded. The text never quotes the body; the texts of pydantic quote it by default."""
    errors_of = getattr(error, "errors", None)  # only a ValidationError of pydantic has this method
    if not callable(errors_of):
        return f"{error}"
    errors: Any = errors_of(include_url=False, include_context=False, include_input=False)  # dictionaries that pydantic makes
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in errors)
