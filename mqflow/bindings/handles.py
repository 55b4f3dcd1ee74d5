"""What the adapter keeps for an open object, and how a get is said in bytes."""

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
    "GetPlan",
    "plan_get",
    "same_message",
    "wants_handle",
    "with_wait",
)

LITTLE_ENDIAN: Final = sys.byteorder == "little"

LEAST_ROOM: Final = 1_024
"""A channel that carries no more than this is not one for messages."""
_FIRST_ROOM: Final = 65_536
_KEPT_ROOM_MAX: Final = 4_194_304
_EXPANSION: Final = 4
"""How many bytes one can become when text is converted, at the most."""
_HANDLE_IGNORED: Final = int(GetOption.PROPERTIES_FORCE_MQRFH2 | GetOption.NO_PROPERTIES | GetOption.PROPERTIES_COMPATIBILITY)


class Bound:
    """An Hobj or an Hsub of one connection: its number, and whether it is open."""

    __slots__ = ("connection", "name", "number", "open")

    def __init__(self, connection: object, number: int, name: str) -> None:
        #: Compared by identity only, so nothing here needs to know the connection.
        self.connection = connection
        self.number = number
        self.name = name
        self.open = True


class BoundHandle(Bound):
    """Hobj. Offers `verbs.ObjectHandle`."""

    __slots__ = (
        "options",
        "plan",
        "resolved_queue",
        "resolved_queue_manager",
        "room",
        "room_max",
    )

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
        self.options = options
        self.resolved_queue = resolved_queue
        self.resolved_queue_manager = resolved_queue_manager
        #: How many bytes the next get has room for.
        self.room = _FIRST_ROOM
        #: As much as the channel is known to carry: where more was refused.
        self.room_max = _KEPT_ROOM_MAX
        #: Of the last get: a listener gets with the same options for ever.
        self.plan: GetPlan | None = None

    def make_room(self, data_bytes: int, *, converted: bool) -> int:
        """Return the room that a message of so many bytes needs, and keep it for the next unless it is a giant's."""
        needed = data_bytes * _EXPANSION if converted else data_bytes
        room = 1 << max(needed, 2 * self.room if data_bytes <= self.room else 1).bit_length()
        if self.room_max < _KEPT_ROOM_MAX:
            room = max(data_bytes, min(room, self.room_max))
        self.room = max(self.room, min(room, self.room_max))
        return room

    def make_less_room(self, refused: int, least: int) -> int:
        """Return a smaller room than the one that was refused, not below the least; no get asks for more unless it must."""
        room = max(least, refused // 2)
        self.room_max = min(self.room_max, room)
        self.room = min(self.room, self.room_max)
        return room


class GetPlan:
    """The MQMD and MQGMO of a get, to be made fresh for each call."""

    __slots__ = ("converts", "gmo", "md", "options", "sizes_itself")

    def __init__(self, options: GetOptions, md: bytes, gmo: bytes, *, sizes_itself: bool) -> None:
        self.options = options
        self.md = md
        self.gmo = gmo
        #: The caller takes any length: what does not fit is got again, with room.
        self.sizes_itself = sizes_itself
        self.converts = bool(options.options & GetOption.CONVERT)


def plan_get(options: GetOptions, *, whole: bool = False) -> GetPlan:
    """Return what the options mean in bytes; with `whole` as if they allowed a message of any length."""
    sizes_itself = whole or options.buffer_bytes_max is None
    said = int(options.options)
    if sizes_itself:
        said &= ~int(GetOption.ACCEPT_TRUNCATED_MSG)  # the caller never meant to lose the rest of it
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
        Options=said,
        WaitInterval=options.wait_ms,
        MatchOptions=int(options.match),
        MsgToken=options.message_token,
    )
    return GetPlan(options, descriptor.to_bytes(2, little_endian=LITTLE_ENDIAN), gmo, sizes_itself=sizes_itself)


def wants_handle(options: GetOptions) -> bool:
    """Return whether properties are to come apart from the body, which takes a message handle that is not made here."""
    return options.message_handle and not int(options.options) & _HANDLE_IGNORED


def same_message(options: GetOptions, found: MessageDescriptor) -> GetOptions:
    """Return the options that get the message which was too long, and no other: by MsgId and CorrelId, without a wait."""
    return replace(
        options,
        options=options.options & ~GetOption.WAIT,
        wait_ms=0,
        match=options.match | MatchOption.MSG_ID | MatchOption.CORREL_ID,
        message_id=found.message_id,
        correlation_id=found.correlation_id,
    )


def with_wait(options: GetOptions, wait_ms: int) -> GetOptions:
    """Return the same for what is left of the wait."""
    return replace(options, options=options.options if wait_ms else options.options & ~GetOption.WAIT, wait_ms=wait_ms)
