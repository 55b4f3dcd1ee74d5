"""The segments of a client channel: their header (TSH), and how segments from a stream become whole flows.

This file knows only the header, and no structure after it. Source: Wireshark's description; IBM q016810 (segment types).
"""

import struct
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap.fields import ByteOrder, FlowError

__all__ = (
    "CONVERSATIONS_MAX",
    "FLOW_BYTES_MAX",
    "HEADER_BYTES",
    "ONLY",
    "SEGMENT_BYTES_MAX",
    "Flag",
    "Flow",
    "Flows",
    "Header",
    "SegmentType",
    "kind_name",
    "segments_of",
    "to_segment",
)


class SegmentType(IntEnum):
    """The segment types of a client channel. The reply to a verb has the type of the verb plus `REPLY`."""

    INITIAL_DATA = 0x01
    STATUS = 0x05
    SECURITY = 0x06
    PING = 0x07
    USER_DATA = 0x08
    HEARTBEAT = 0x09
    CONNECTION_AUTHENTICATION = 0x0A
    RENEGOTIATE_DATA = 0x0B
    SOCKET_ACTION = 0x0C
    ASYNC_MESSAGE = 0x0D
    REQUEST_MESSAGES = 0x0E
    NOTIFICATION = 0x0F
    MQCONN = 0x81
    MQDISC = 0x82
    MQOPEN = 0x83
    MQCLOSE = 0x84
    MQGET = 0x85
    MQPUT = 0x86
    MQPUT1 = 0x87
    MQSET = 0x88
    MQINQ = 0x89
    MQCMIT = 0x8A
    MQBACK = 0x8B
    SPI = 0x8C
    MQSTAT = 0x8D
    MQSUB = 0x8E
    MQSUBRQ = 0x8F
    XA_START = 0xA1
    XA_END = 0xA2
    XA_OPEN = 0xA3
    XA_CLOSE = 0xA4
    XA_PREPARE = 0xA5
    XA_COMMIT = 0xA6
    XA_ROLLBACK = 0xA7
    XA_FORGET = 0xA8
    XA_RECOVER = 0xA9
    XA_COMPLETE = 0xAA


def kind_name(kind: int) -> str:
    """Return the name of a segment type, or its number."""
    return SegmentType(kind).name if kind in _KINDS else f"segment type 0x{kind:02X}"


_KINDS: Final = frozenset(int(kind) for kind in SegmentType)


class Flag(IntFlag):
    """The control flags of a segment."""

    CONFIRM = 0x01
    ERROR = 0x02
    REQUEST_CLOSE = 0x04
    CLOSE = 0x08
    FIRST = 0x10
    LAST = 0x20
    ACCEPTED = 0x40


ONLY: Final = Flag.FIRST | Flag.LAST
HEADER_BYTES: Final = 28
_SHARED_HEADER_BYTES: Final = 36
_IDENTIFIERS: Final = frozenset({b"TSH ", b"TSHM", b"TSHC"})
_ASCII_CCSID: Final = 819
_BIG, _LITTLE = 1, 2
SEGMENT_BYTES_MAX: Final = 1024 * 1024
"""The most bytes in one segment. The negotiation can lower this limit."""
CONVERSATIONS_MAX: Final = 10
"""The most conversations on a socket. The negotiation can lower this limit."""
FLOW_BYTES_MAX: Final = 104_857_600 + 64 * 1024
"""The most bytes in one flow: the longest message of IBM MQ, plus the structures in front of it."""


class Header(Struct, frozen=True, kw_only=True):
    """The header of a segment (TSH). On a shared socket it names a conversation (TSHM)."""

    kind: int
    flags: int = ONLY
    flags2: int = 0
    #: The number of the conversation, and the number of the request; None and 0 on a socket that is not shared.
    conversation: int | None = None
    request: int = 0
    order: ByteOrder = ">"
    ccsid: int = _ASCII_CCSID
    #: True if the segment is about the whole shared socket (TSHC).
    of_socket: bool = False

    @property
    def length(self) -> int:
        """The length of the header in bytes."""
        return HEADER_BYTES if self.conversation is None else _SHARED_HEADER_BYTES


class Flow(Struct, frozen=True):
    """A whole flow: the header of its first segment, and the bytes of all its segments without headers."""

    header: Header
    body: bytes


def to_segment(header: Header, body: bytes) -> bytes:
    """Return the bytes of one segment."""
    front = b"TSHC" if header.of_socket else b"TSH " if header.conversation is None else b"TSHM"
    front += struct.pack(">I", header.length + len(body))
    if header.conversation is not None:
        front += struct.pack(">II", header.conversation & 0xFFFF_FFFF, header.request & 0xFFFF_FFFF)
    little = header.order == "<"
    encoding = 0x222 if little else 0x111
    front += bytes((_LITTLE if little else _BIG, header.kind, header.flags, header.flags2)) + bytes(8)
    return front + struct.pack(f"{header.order}IHH", encoding, header.ccsid, 0) + body


def segments_of(flow: Flow, segment_bytes_max: int) -> Iterator[bytes]:
    """Yield the segments of a flow, each with at most `segment_bytes_max` bytes."""
    room = segment_bytes_max - flow.header.length
    flags = Flag(flow.header.flags) & ~ONLY
    for start in range(0, max(len(flow.body), 1), room):
        end = start + room
        place = (Flag.FIRST if start == 0 else Flag(0)) | (Flag.LAST if end >= len(flow.body) else Flag(0))
        header = flow.header if place == ONLY else replace(flow.header, flags=int(flags | place))
        yield to_segment(header, flow.body[start:end])


class Flows:
    """Turns the bytes of a stream into whole flows."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        #: The incomplete flow of each conversation: the header of its first segment, and the bytes so far.
        self._begun: dict[int | None, tuple[Header, bytearray]] = {}
        self._begun_bytes = 0
        #: The number of whole segments so far.
        self.segment_count: int = 0
        self.segment_bytes_max = SEGMENT_BYTES_MAX
        #: The largest number of incomplete flows. Each conversation has at most one.
        self.conversations_max = CONVERSATIONS_MAX
        #: The most bytes of all incomplete flows together.
        self.flow_bytes_max = FLOW_BYTES_MAX

    def feed(self, data: bytes) -> Iterator[Flow]:
        """Yield the flows that these bytes complete. Raises `FlowError` for bytes that are not segments, or beyond a limit."""
        self._waiting += data
        while (segment := self._segment()) is not None:
            flow = self._flow(*segment)
            if flow is not None:
                yield flow

    def _segment(self) -> tuple[Header, bytes] | None:
        front = bytes(self._waiting[:4])
        if not any(each.startswith(front) for each in _IDENTIFIERS):
            raise FlowError(f"a segment begins with {front!r}, not with TSH")
        if len(self._waiting) < HEADER_BYTES:
            return None
        front = bytes(self._waiting[:_SHARED_HEADER_BYTES])
        length = int.from_bytes(front[4:8])
        shared = front[:4] == b"TSHM"
        header_bytes = _SHARED_HEADER_BYTES if shared else HEADER_BYTES
        if not header_bytes <= length <= self.segment_bytes_max:
            raise FlowError(f"a segment has {length} bytes; {header_bytes} to {self.segment_bytes_max} are accepted")
        if len(self._waiting) < length:
            return None
        segment = bytes(self._waiting[:length])
        del self._waiting[:length]
        self.segment_count += 1
        return _header(segment, shared=shared), segment[header_bytes:]

    def _flow(self, header: Header, body: bytes) -> Flow | None:
        if header.kind < SegmentType.MQCONN or header.flags & ONLY == ONLY:
            return Flow(header, body)
        begun = self._begun.get(header.conversation)
        if header.flags & Flag.FIRST:
            if begun is None and len(self._begun) >= self.conversations_max:
                raise FlowError(f"more than {self.conversations_max} flows are under way")
            self._begun_bytes -= 0 if begun is None else len(begun[1])
            begun = self._begun[header.conversation] = header, bytearray()
        elif begun is None or begun[0].kind != header.kind:
            raise FlowError(f"a segment of {kind_name(header.kind)} continues a flow that has not begun")
        begun[1].extend(body)
        self._begun_bytes += len(body)
        if self._begun_bytes > self.flow_bytes_max:
            raise FlowError(f"the flows under way have more than {self.flow_bytes_max} bytes")
        if not header.flags & Flag.LAST:
            return None
        first, whole = self._begun.pop(header.conversation)
        self._begun_bytes -= len(whole)
        return Flow(first, bytes(whole))


def _header(segment: bytes, *, shared: bool) -> Header:
    at = 8 if shared else 0
    mark = segment[at + 8]
    if mark not in {_BIG, _LITTLE}:
        raise FlowError(f"a segment has the byte order {mark}; 1 and 2 are known")
    order: ByteOrder = "<" if mark == _LITTLE else ">"
    return Header(
        kind=segment[at + 9],
        flags=segment[at + 10],
        flags2=segment[at + 11],
        conversation=int.from_bytes(segment[8:12]) if shared else None,
        request=int.from_bytes(segment[12:16]) if shared else 0,
        order=order,
        of_socket=segment[:4] == b"TSHC",
        ccsid=int.from_bytes(segment[at + 24 : at + 26], "little" if order == "<" else "big"),
    )
