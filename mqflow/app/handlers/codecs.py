"""From body to payload and back: one decoder for each payload type, compiled when the listener is declared.

The annotation chooses, never the message: `bytes` is the body, `str` its text, anything else is JSON read by msgspec (Struct,
dataclass, TypedDict, dict, list ...) or, where the class is one, by pydantic. A codec of one's own is an object with `decode`
and `encode`.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from mqflow.app.handlers.message import Message
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format
from mqflow.policy.poison.outcomes import UndecodableError

__all__ = ("CCSID_UTF8", "Codec", "Decode", "decoder_for", "encode")

CCSID_UTF8: Final = 1208
_UTF8: Final = frozenset({0, CCSID_UTF8, 367})
"""Character sets whose JSON is UTF-8 as it stands; 0 is the queue manager's own, 1208 here."""

Decode = Callable[[Message], Any]


class Codec(Protocol):
    """Both ways, for a listener or a publisher that has formats of its own."""

    def decode(self, message: Message, payload_type: Any) -> Any:
        """Return the payload. A `ValueError`, a `TypeError` or an `UndecodableError` makes the message undecodable."""
        ...

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        """Return body, format (MQFMT_*) and character set."""
        ...


def decoder_for(payload_type: Any, codec: Codec | None = None) -> Decode:
    """Return the function from message to payload; it raises `UndecodableError`, with the cause, and nothing else."""
    if codec is not None:
        return _guarded(lambda message: codec.decode(message, payload_type))
    if payload_type is bytes:
        return _guarded(lambda message: message.body)
    if payload_type is str:
        return _guarded(lambda message: message.text())
    if hasattr(payload_type, "model_validate_json"):
        validate = payload_type.model_validate_json
        return _guarded(lambda message: validate(_json(message)))
    decode = msgspec.json.Decoder(payload_type).decode
    return _guarded(lambda message: decode(_json(message)))


def encode(payload: Any, codec: Codec | None = None) -> tuple[bytes, str, int]:
    """Return body, format and character set for a payload: bytes as they are, text and JSON as UTF-8 in MQSTR."""
    if codec is not None:
        return codec.encode(payload)
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), Format.NONE, 0
    if isinstance(payload, str):
        return payload.encode(), Format.STRING, CCSID_UTF8
    if hasattr(payload, "model_dump_json"):
        return payload.model_dump_json().encode(), Format.STRING, CCSID_UTF8
    return msgspec.json.encode(payload), Format.STRING, CCSID_UTF8


def _json(message: Message) -> bytes:
    """Return the body's JSON as UTF-8, whatever character set it came in."""
    if message.descriptor.format in {Format.NONE, Format.STRING}:
        return message.data if message.descriptor.ccsid in _UTF8 else message.text().encode()
    return message.body if message.parts.ccsid in _UTF8 else message.text().encode()


def _guarded(decode: Decode) -> Decode:
    def guarded(message: Message) -> Any:
        try:
            return decode(message)
        except MQIError as error:
            raise UndecodableError(str(error)) from error
        except (ValueError, TypeError, RecursionError, ArithmeticError, LookupError) as error:
            raise UndecodableError(_told(error)) from error

    return guarded


def _told(error: Exception) -> str:
    """Return what is wrong with a body. pydantic would quote what stands there, in logs and headers: it is asked not to."""
    problems = getattr(error, "errors", None)
    if not callable(problems):
        return f"{error}"
    told: Any = problems(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in told)
