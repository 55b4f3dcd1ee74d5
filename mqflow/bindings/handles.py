"""The handle of an open object, with the structures of its gets as bytes. This file knows no connection."""

import sys
from typing import Final

from msgspec.structs import replace

from mqflow.bindings.structures import MQGMO
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.verbs import GetOptions

__all__ = (
    "LEAST_ROOM",
    "LITTLE_ENDIAN",
    "Bound",
    "BoundHandle",
    "GetStructures",
    "plan_get",
    "same_message",
    "wants_handle",
    "with_wait",
)

LITTLE_ENDIAN: Final = sys.byteorder == "little"

LEAST_ROOM: Final = 1_024
"""The smallest buffer for a get, in bytes: a channel that carries less cannot carry messages."""
_FIRST_ROOM: Final = 65_536
_KEPT_ROOM_MAX: Final = 4_194_304
_EXPANSION: Final = 4
"""The most bytes that one byte of text becomes by conversion."""
_HANDLE_IGNORED: Final = int(GetOption.PROPERTIES_FORCE_MQRFH2 | GetOption.NO_PROPERTIES | GetOption.PROPERTIES_COMPATIBILITY)


class Bound:
    """An Hobj or an Hsub of one connection: its number, and whether it is open."""

    __slots__ = ("connection", "name", "number", "open")

    def __init__(self, connection: object, number: int, name: str) -> None:
        #: The connection. It is compared by identity only, so this file needs no knowledge of it.
        self.connection: object = connection
        self.number: int = number
        self.name: str = name
        self.open: bool = True


class BoundHandle(Bound):
    """Hobj: offers `verbs.ObjectHandle`."""

    __slots__ = ("options", "plan", "resolved_queue", "resolved_queue_manager", "room", "room_max")

    def __init__(
        self,
        connection: object,
        number: int,
        name: str,
        options: OpenOption,
        resolved_queue: str,
        resolved_queue_manager: str = "",
    ) -> None:
        super().__init__(connection, number, name)
        self.options: OpenOption = options
        self.resolved_queue: str = resolved_queue
        self.resolved_queue_manager: str = resolved_queue_manager
        #: The buffer size of the next get, in bytes.
        self.room: int = _FIRST_ROOM
        #: The most bytes that the channel carries, as far as refused gets have shown.
        self.room_max: int = _KEPT_ROOM_MAX
        #: The plan of the last get, kept because a listener gets with the same options again and again.
        self.plan: GetStructures | None = None

    def make_room(self, data_bytes: int, *, converted: bool) -> int:
        """Return the buffer size for a message of `data_bytes`. Later gets use this size too, up to a limit."""
        needed = data_bytes * _EXPANSION if converted else data_bytes
        if data_bytes <= self.room:
            needed = max(needed, 2 * self.room)
        room = 1 << needed.bit_length()
        if self.room_max < _KEPT_ROOM_MAX:
            room = max(data_bytes, min(room, self.room_max))
        self.room = max(self.room, min(room, self.room_max))
        return room

    def make_less_room(self, refused: int, least: int) -> int:
        """Return half of the refused buffer size, but at least `least`. Later gets exceed it only for a longer message."""
        room = max(least, refused // 2)
        self.room_max = min(self.room_max, room)
        self.room = min(self.room, self.room_max)
        return room


class GetStructures:
    """The MQMD and MQGMO of a get; each call needs a fresh copy."""

    __slots__ = ("converts", "gmo", "md", "options", "sizes_itself")

    def __init__(self, options: GetOptions, md: bytes, gmo: bytes, *, sizes_itself: bool) -> None:
        self.options: GetOptions = options
        self.md: bytes = md
        self.gmo: bytes = gmo
        #: True if the caller takes a body of any length: then a message that does not fit is got again, into a larger buffer.
        self.sizes_itself: bool = sizes_itself
        self.converts: Final = bool(options.options & GetOption.CONVERT)


def plan_get(options: GetOptions, *, whole: bool = False) -> GetStructures:
    """Return the structures for the options. If `whole` is true, they are for a message of any length."""
    sizes_itself = whole or options.buffer_bytes_max is None
    said = int(options.options)
    if sizes_itself:
        said &= ~int(GetOption.ACCEPT_TRUNCATED_MSG)  # the caller must not lose the rest of the message
    descriptor = MessageDescriptor(
        message_id=options.message_id,
        correlation_id=options.correlation_id,
        group_id=options.group_id,
        sequence_number=options.sequence_number,
        offset=options.offset,
        encoding=options.encoding,
        ccsid=options.ccsid,
    )
    gmo = MQGMO.pack(
        Options=said, WaitInterval=options.wait_ms, MatchOptions=int(options.match), MsgToken=options.message_token
    )
    return GetStructures(options, descriptor.to_bytes(2, little_endian=LITTLE_ENDIAN), gmo, sizes_itself=sizes_itself)


def wants_handle(options: GetOptions) -> bool:
    """Return whether the caller wants properties in a message handle. The adapter does not offer this."""
    return options.message_handle and not int(options.options) & _HANDLE_IGNORED


def same_message(options: GetOptions, found: MessageDescriptor) -> GetOptions:
    """Return the options to get only the message that was too long, whole. They match MsgId and CorrelId, and do not wait."""
    return replace(
        options,
        options=options.options & ~GetOption.WAIT,
        wait_ms=0,
        buffer_bytes_max=None,
        match=options.match | MatchOption.MSG_ID | MatchOption.CORREL_ID,
        message_id=found.message_id,
        correlation_id=found.correlation_id,
    )


def with_wait(options: GetOptions, wait_ms: int) -> GetOptions:
    """Return the same options with this wait, for a message of any length; 0 is no wait."""
    said = options.options if wait_ms else options.options & ~GetOption.WAIT
    return replace(options, options=said, wait_ms=wait_ms, buffer_bytes_max=None)
