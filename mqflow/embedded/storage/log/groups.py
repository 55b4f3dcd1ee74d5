"""The bytes of the log: a segment has a header and groups, and a group has a header and records. This module does no I/O.

A group is made whole or not at all. Its header chains it to the group before it, and carries `certain`: the sequence number of
the last group that was synced before. So a reader can tell a torn end, which nobody acknowledged, from damage.
The CRC of each record includes the sequence number, so that an old record in a reused segment is never taken for a new one.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from mqflow.embedded.storage.medium import DamagedError

__all__ = (
    "ADDED_BYTES",
    "FORMAT_VERSION",
    "GROUP_HEAD_BYTES",
    "SEGMENT_HEAD_BYTES",
    "Added",
    "Counted",
    "Fact",
    "Group",
    "Record",
    "Removed",
    "added_at",
    "added_record",
    "certain_later",
    "counted_record",
    "descriptor_of",
    "fact_record",
    "group_at",
    "group_head",
    "is_whole",
    "message_body",
    "messages_in",
    "records_of",
    "removed_record",
    "seed_of",
    "segment_base",
    "segment_head",
    "segment_version",
)

FORMAT_VERSION: Final = 1
SEGMENT_HEAD_BYTES: Final = 64

_SEGMENT: Final = struct.Struct("<8sIQQ")  # magic, version, number, base sequence number; then the CRC
_SEGMENT_MAGIC: Final = b"mqflowlg"
_CRC: Final = struct.Struct("<I")

_GROUP: Final = struct.Struct("<QQIII")  # sequence, certain, chain, payload bytes, whether it seals the segment
_GROUP_MAGIC: Final = b"mqGR"
_GROUP_FRAME: Final = struct.Struct("<4sI")  # magic, CRC
GROUP_HEAD_BYTES: Final = _GROUP_FRAME.size + _GROUP.size

_PREFIX: Final = struct.Struct("<IBxxxII")  # CRC, kind, length of the first part, length of the second part
_ADDED: Final = struct.Struct("<QIqB3xddII")  # serial, queue, priority, expires, expires_at, put_at, CRC of descriptor, of body
_PAIR: Final = struct.Struct("<QQ")
_ADD, _REMOVE, _COUNT, _FACT, _FORGET = range(1, 6)
ADDED_BYTES: Final = _PREFIX.size + _ADDED.size


class Group(Struct, frozen=True, gc=False):
    """The header of a group, and where its records are."""

    sequence: int
    certain: int
    #: The CRC of the header: the next group carries it as its chain.
    link: int
    start: int
    end: int
    seals: bool


class Added(Struct, frozen=True, gc=False):
    """A message, without its descriptor and body."""

    #: Where the record begins in its segment.
    at: int
    serial: int
    queue: int
    order_priority: int
    #: 0 for a message that never expires; then `expires_at_or_0` means nothing.
    expires: int
    expires_at_or_0: float
    put_at: float
    descriptor_check: int
    body_check: int
    descriptor_bytes: int
    body_bytes: int

    @property
    def expires_at(self) -> float | None:
        """Return the time when the message expires; None for never."""
        return self.expires_at_or_0 if self.expires else None

    @property
    def end(self) -> int:
        """Return where the record ends in its segment."""
        return self.at + ADDED_BYTES + self.descriptor_bytes + self.body_bytes


class Removed(Struct, frozen=True, gc=False):
    """Messages that are gone."""

    serials: tuple[int, ...]


class Counted(Struct, frozen=True, gc=False):
    """The backout count of a message."""

    serial: int
    backout_count: int


class Fact(Struct, frozen=True, gc=False):
    """A definition, or a number of the whole store. It replaces an earlier fact with the same key."""

    key: bytes
    #: None: there is no such fact any more.
    value: bytes | None


Record = Added | Removed | Counted | Fact


def segment_head(number: int, base: int) -> bytes:
    """Return the header of a segment. Each group in it has a sequence number above `base`."""
    head = _SEGMENT.pack(_SEGMENT_MAGIC, FORMAT_VERSION, number, base)
    return (head + _CRC.pack(zlib.crc32(head))).ljust(SEGMENT_HEAD_BYTES, b"\0")


def segment_base(head: bytes, number: int) -> int | None:
    """Return the base sequence number in a segment's header; None if this is not the header of this segment."""
    if segment_version(head) is None:
        return None
    _, _, found, base = _SEGMENT.unpack_from(head)
    return int(base) if found == number else None


def segment_version(head: bytes) -> int | None:
    """Return the format version in a segment's header; None if this is no whole header."""
    packed = head[: _SEGMENT.size]
    if len(head) < SEGMENT_HEAD_BYTES or _CRC.pack(zlib.crc32(packed)) != head[_SEGMENT.size : _SEGMENT.size + _CRC.size]:
        return None
    magic, version, _, _ = _SEGMENT.unpack(packed)
    return int(version) if magic == _SEGMENT_MAGIC else None


def group_head(sequence: int, certain: int, chain: int, payload_bytes: int, *, seals: bool = False) -> tuple[bytes, int]:
    """Return the header of a group and its link."""
    head = _GROUP.pack(sequence, certain, chain, payload_bytes, seals)
    link = zlib.crc32(head)
    return _GROUP_FRAME.pack(_GROUP_MAGIC, link) + head, link


def group_at(data: bytes, at: int, after: int, chain: int | None) -> Group | None:
    """Return the group at this place, if it comes after sequence number `after` and has this chain. None accepts any chain."""
    if at + GROUP_HEAD_BYTES > len(data):
        return None
    magic, link = _GROUP_FRAME.unpack_from(data, at)
    start = at + GROUP_HEAD_BYTES
    if magic != _GROUP_MAGIC or link != zlib.crc32(data[at + _GROUP_FRAME.size : start]):
        return None
    sequence, certain, chained, payload_bytes, seals = _GROUP.unpack_from(data, at + _GROUP_FRAME.size)
    if sequence <= after or (chain is not None and chained != chain) or start + payload_bytes > len(data):
        return None
    return Group(sequence, certain, link, start, start + payload_bytes, bool(seals))


def certain_later(data: bytes, at: int, after: int) -> bool:
    """Return whether a group behind `at` proves that a group later than `after` was synced before it."""
    while (at := data.find(_GROUP_MAGIC, at)) >= 0:
        found = group_at(data, at, after, None)
        if found is not None and found.certain > after:
            return True
        at += 1
    return False


def seed_of(sequence: int) -> int:
    """Return the start value for the CRCs of a group's records."""
    return zlib.crc32(sequence.to_bytes(8, "little"))


def added_record(
    seed: int,
    serial: int,
    queue: int,
    order_priority: int,
    expires_at: float | None,
    put_at: float,
    descriptor: bytes,
    body: bytes,
) -> tuple[bytes, bytes, bytes]:
    """Return the record of a message in three parts: head, descriptor and body."""
    checks = zlib.crc32(descriptor), zlib.crc32(body)
    head = _ADDED.pack(serial, queue, order_priority, expires_at is not None, expires_at or 0.0, put_at, *checks)
    return _framed(seed, _ADD, head, len(descriptor), len(body)), descriptor, body


def removed_record(seed: int, serials: Sequence[int]) -> bytes:
    """Return the record of these removals."""
    return _framed(seed, _REMOVE, struct.pack(f"<{len(serials)}Q", *serials), 8 * len(serials), 0)


def counted_record(seed: int, serial: int, backout_count: int) -> bytes:
    """Return the record of a backout count."""
    return _framed(seed, _COUNT, _PAIR.pack(serial, backout_count), _PAIR.size, 0)


def fact_record(seed: int, key: bytes, value: bytes | None) -> bytes:
    """Return the record of a fact."""
    kind, value = (_FORGET, b"") if value is None else (_FACT, value)
    return _framed(seed, kind, key + value, len(key), len(value))


def _framed(seed: int, kind: int, checked: bytes, first: int, second: int) -> bytes:
    rest = _PREFIX.pack(0, kind, first, second)[_CRC.size :] + checked
    return _CRC.pack(zlib.crc32(rest, seed)) + rest


def records_of(data: bytes, group: Group) -> Iterator[Record]:
    """Yield the records of a group. Raises `DamagedError` if a record is damaged; descriptors and bodies are not checked."""
    seed, at, end = seed_of(group.sequence), group.start, group.end
    while at < end:
        if at + _PREFIX.size > end:
            raise DamagedError(f"a record at {at} is cut off")
        check, kind, first, second = _PREFIX.unpack_from(data, at)
        start = at + _PREFIX.size
        whole = start + first + second + (_ADDED.size if kind == _ADD else 0)
        checked = start + _ADDED.size if kind == _ADD else whole
        if whole > end or zlib.crc32(data[at + _CRC.size : checked], seed) != check:
            raise DamagedError(f"the record at {at} is damaged")
        yield _added(data, at, first, second) if kind == _ADD else _other_record(data, kind, start, first, whole)
        at = whole


def _other_record(data: bytes, kind: int, start: int, first: int, end: int) -> Record:
    match kind:
        case 2:
            return Removed(struct.unpack_from(f"<{first // 8}Q", data, start))
        case 3:
            return Counted(*_PAIR.unpack_from(data, start))
        case 4:
            return Fact(data[start : start + first], data[start + first : end])
        case 5:
            return Fact(data[start : start + first], None)
        case _:
            raise DamagedError(f"a record has the unknown kind {kind}")


def messages_in(data: bytes) -> Iterator[Added]:
    """Yield every message of a segment, read before without damage."""
    at, after = SEGMENT_HEAD_BYTES, 0
    while (group := group_at(data, at, after, None)) is not None:
        yield from (record for record in records_of(data, group) if isinstance(record, Added))
        at, after = group.end, group.sequence


def added_at(data: bytes, at: int, offset: int = 0) -> Added:
    """Return the message whose record begins at `at` in a segment, and `data` at `offset`. Nothing is checked."""
    _, kind, first, second = _PREFIX.unpack_from(data, at - offset)
    if kind != _ADD:
        raise DamagedError(f"there is no message at {at}")
    return _added(data, at, first, second, offset)


def _added(data: bytes, at: int, descriptor_bytes: int, body_bytes: int, offset: int = 0) -> Added:
    serial, queue, priority, expires, expires_at, put_at, *checks = _ADDED.unpack_from(data, at - offset + _PREFIX.size)
    return Added(at, serial, queue, priority, expires, expires_at, put_at, checks[0], checks[1], descriptor_bytes, body_bytes)


def descriptor_of(data: bytes, found: Added, offset: int = 0) -> bytes:
    """Return the encoded descriptor of a message. Raises `DamagedError`."""
    start = found.at - offset + ADDED_BYTES
    encoded = data[start : start + found.descriptor_bytes]
    if len(encoded) != found.descriptor_bytes or zlib.crc32(encoded) != found.descriptor_check:
        raise DamagedError("its descriptor is damaged")
    return encoded


def message_body(data: bytes, found: Added, offset: int = 0) -> bytes:
    """Return the body of a message. Raises `DamagedError`."""
    start = found.at - offset + ADDED_BYTES + found.descriptor_bytes
    body = data[start : start + found.body_bytes]
    if len(body) != found.body_bytes or zlib.crc32(body) != found.body_check:
        raise DamagedError("its body is damaged")
    return body


def is_whole(data: bytes, group: Group) -> bool:
    """Return whether every byte of the group is as it was written."""
    try:
        for record in records_of(data, group):
            if isinstance(record, Added):
                descriptor_of(data, record)
                message_body(data, record)
    except DamagedError:
        return False
    return True
