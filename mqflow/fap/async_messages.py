"""Messages that a queue manager sends without a get: the client's request, the messages themselves, and notifications.

Source: Wireshark's layouts; the flows of IBM's JMS classes.
"""

from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import Final

from msgspec import Struct

from mqflow.fap.fields import ByteOrder, FlowError, Reader, Writer
from mqflow.fap.structures import write_descriptor
from mqflow.fap.transmission_segments import Flag, Flow, Header, SegmentType, to_segment
from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.options import MatchOption
from mqflow.verbs import Got

__all__ = ("MessageRequest", "Notice", "Notification", "RequestFlag", "Selection", "async_message", "notification")

_CONTINUED_BYTES: Final = 24


class RequestFlag(IntFlag):
    """The flags of a request for messages. All names except SELECTION are mqflow's own."""

    #: The client calls a listener for each message.
    CALLS_BACK = 0x01
    #: The client asks whether there is really no message: answer now, with a message or a notice.
    CHECK = 0x02
    CHECK_REPLY = 0x04
    #: The client waits for a message.
    WAITS = 0x08
    SELECTION = 0x10


class Notice(IntEnum):
    """The kinds of notification."""

    GET_INHIBITED = 1
    GET_ALLOWED = 2
    CONNECTION_STATE = 3
    CONNECTION_STATE_REPLY = 4
    QUEUE_STATE = 5
    QUEUE_STATE_REPLY = 6
    QUEUE_MANAGER_QUIESCING = 7
    TRANSACTION_ALLOWED = 8
    TRANSACTION_REVOKE = 9
    TRANSACTION_REVOKE_REPLY = 10
    CHECK_MESSAGE = 11
    BROWSE_FIRST = 12
    MESSAGE_TOO_LARGE = 13
    STREAMING_FAILURE = 14
    CLIENT_ASYNC_EMPTY = 15
    STREAMING_TRANSACTION_PAUSED = 16
    RECONNECTION_COMPLETE = 17


class Selection(Struct, frozen=True, kw_only=True):
    """The selection of messages by the client. It applies until the client sends another selection."""

    index: int = 0
    descriptor_version: int = 2
    ccsid: int = 0
    encoding: int = 0
    sequence_number: int = 1
    offset: int = 0
    match: int = 0
    message_id: bytes = NO_ID
    correlation_id: bytes = NO_ID
    group_id: bytes = NO_ID
    message_token: bytes = bytes(16)

    @classmethod
    def read(cls, reader: Reader) -> "Selection":
        """Read the structure. It has only the identifiers that `match` asks for."""
        index, version = reader.short(), reader.short()
        ccsid, encoding, sequence_number, offset, match = (reader.number() for _ in range(5))
        return cls(
            index=index,
            descriptor_version=version,
            ccsid=ccsid,
            encoding=encoding,
            sequence_number=sequence_number,
            offset=offset,
            match=match,
            message_id=reader.raw(24) if match & MatchOption.MSG_ID else NO_ID,
            correlation_id=reader.raw(24) if match & MatchOption.CORREL_ID else NO_ID,
            group_id=reader.raw(24) if match & MatchOption.GROUP_ID else NO_ID,
            message_token=reader.raw(16) if match & MatchOption.MSG_TOKEN else bytes(16),
        )


class MessageRequest(Struct, frozen=True, kw_only=True):
    """REQUEST_MESSAGES: the client wants messages of a handle, together up to `wanted_bytes`."""

    handle: int
    #: The bytes that the client has received since its last request, and the bytes that it wants now.
    received_bytes: int
    wanted_bytes: int
    #: The longest message that the client accepts.
    message_bytes_max: int
    options: int
    wait_ms: int
    queue_status: int
    flags: int
    #: The number of the last message that the client has received on the connection.
    message_index: int
    selection: Selection | None = None

    @property
    def stands(self) -> bool:
        """True if the request stays valid after its first message, because the client calls a listener for each message.

        A connection consumer (ASF) also makes such a request, without any flag.
        """
        return bool(self.flags & RequestFlag.CALLS_BACK) or not self.flags & (RequestFlag.WAITS | RequestFlag.CHECK)

    @classmethod
    def read(cls, reader: Reader) -> "MessageRequest":
        """Read the request. Raises `FlowError` for an unknown version."""
        if (version := reader.number()) != 1:
            raise FlowError(f"a request for messages has the version {version}; 1 is known")
        numbers = [reader.number() for _ in range(9)]
        handle, received, wanted, most, options, wait_ms, status, flags, index = numbers
        return cls(
            handle=handle,
            received_bytes=received,
            wanted_bytes=wanted,
            message_bytes_max=most,
            options=options,
            wait_ms=wait_ms,
            queue_status=status,
            flags=flags,
            message_index=index,
            selection=Selection.read(reader) if flags & RequestFlag.SELECTION else None,
        )


def async_message(
    header: Header, handle: int, got: Got, *, number: int, connection_number: int, selection: Selection, segment_bytes_max: int
) -> Iterator[bytes]:
    """Yield the segments of one message.

    `number` counts the messages of the handle; `connection_number` counts the messages of the connection.
    """
    order = header.order
    first = Writer(order)
    write_descriptor(first, got.descriptor, selection.descriptor_version)
    descriptor_bytes = len(first)
    content = first.raw(got.body).done()
    at, index = 0, 0
    while True:
        front = Writer(order)
        if index == 0:
            name = got.resolved_queue.encode("latin-1", "replace")
            front.number(got.reason, got.data_bytes, len(got.body))
            front.raw(got.message_token).short(0).byte(len(name)).raw(name)
            front.raw(bytes(-(_CONTINUED_BYTES + len(front)) % 4))
        room = segment_bytes_max - header.length - _CONTINUED_BYTES - len(front)
        part = content[at : at + room]
        at += room
        last = at >= len(content)
        flags = (Flag.FIRST if index == 0 else Flag(0)) | (Flag.LAST if last else Flag(0))
        # The length counts only the bytes of the message data.
        length = len(part) - (descriptor_bytes if index == 0 else 0)
        described = Writer(order).number(1, handle, number, connection_number, length).short(index, selection.index)
        sent = Header(
            kind=SegmentType.ASYNC_MESSAGE, flags=flags, conversation=header.conversation, request=header.request, order=order
        )
        yield to_segment(sent, described.raw(front.done()).raw(part).done())
        if last:
            return
        index += 1


class Notification(Struct, frozen=True):
    """NOTIFICATION: a change of state of a handle, or of the whole connection (handle -1)."""

    handle: int
    notice: int
    value: int

    @classmethod
    def read(cls, reader: Reader) -> "Notification":
        """Read the structure."""
        reader.number()
        return cls(reader.number(), reader.number(), reader.number())


def notification(header: Header, handle: int, notice: Notice, value: int = 0) -> Flow:
    """Return a notification about a handle, as an answer to the request with this header."""
    order: ByteOrder = header.order
    sent = Header(kind=SegmentType.NOTIFICATION, conversation=header.conversation, request=header.request, order=order)
    return Flow(sent, Writer(order).number(1, handle, notice, value).done())
