"""Shows the body of a message as the handler of its queue receives it: the fields that the handler's codec decodes.

The codec belongs to the application or to a plugin. If the codec raises an error, the page shows this error. This file uses no
queue manager.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.app.application import App
from mqflow.app.handlers.handler import Handler
from mqflow.app.handlers.message import Message
from mqflow.policy.dead_letters.original_message import Restored
from mqflow.policy.poison.outcomes import UndecodableError

__all__ = ("HandlerPayload", "handler_payload")

_ROWS_MAX: Final = 1_000


class HandlerPayload(Struct, frozen=True, kw_only=True):
    """The fields of a body, as the codec of a handler has decoded them."""

    handler: str
    #: The class of the codec.
    codec: str
    #: The path of each field, for example "lines.2.price", and its value.
    rows: tuple[tuple[str, str], ...] = ()
    #: True if the body has more fields than `rows`.
    is_cut: bool = False
    #: The reason why the codec cannot decode the body; empty if it can.
    problem: str = ""


def handler_payload(app: App, queue: str, message: Restored) -> HandlerPayload | None:
    """Return the body as the handler of the queue receives it.

    Returns None if no handler of the queue has its own codec, because the page shows text and JSON anyway.
    """
    read = Message(message.descriptor, message.data, queue)
    for listener in app.listeners:
        for handler in listener.handlers if listener.queue == queue else ():
            if handler.codec is not None and handler.decode is not None:
                found = _read_by(handler, read)
                if found is not None:
                    return found
    return None


def _read_by(handler: Handler, message: Message) -> HandlerPayload | None:
    """Return the fields or the problem. None if `where` of the handler does not accept the message."""
    assert handler.codec is not None  # noqa: S101 - the caller has checked both
    assert handler.decode is not None  # noqa: S101 - as above
    codec = type(handler.codec).__name__
    try:
        if handler.where is not None and not handler.where(message):
            return None
        payload = msgspec.to_builtins(handler.decode(message), builtin_types=(bytes,))
        rows = tuple(islice(_rows(payload, ""), _ROWS_MAX + 1))
    except UndecodableError as error:
        return HandlerPayload(handler=handler.short_name, codec=codec, problem=str(error))
    except Exception as error:  # noqa: BLE001 - code of the application; the page shows the message without its fields
        return HandlerPayload(handler=handler.short_name, codec=codec, problem=f"{type(error).__name__}: {error}")
    return HandlerPayload(handler=handler.short_name, codec=codec, rows=rows[:_ROWS_MAX], is_cut=len(rows) > _ROWS_MAX)


def _rows(value: object, path: str) -> Iterator[tuple[str, str]]:
    match value:
        case Mapping() | list() | tuple() if value:
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            for name, item in items:
                yield from _rows(item, f"{path}.{name}" if path else str(name))
        case bytes():
            yield path, value.hex()
        case None:
            yield path, ""
        case bool():
            yield path, str(value).lower()
        case _:
            yield path, str(value)
