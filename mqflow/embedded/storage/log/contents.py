"""The contents of the log in memory: the place of each message, the counts and the facts. This module does no I/O.

A fact is kept with the segment that holds it, so that it can be written again before that segment goes.
"""

from array import array
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct, field

from mqflow.embedded.storage.log.groups import ADDED_BYTES, Added, Counted, Fact, Record, Removed
from mqflow.embedded.storage.log.places import Places, place, segment_and_offset
from mqflow.mqi.attributes.queue import QueueAttributes

__all__ = ("Contents", "Usage", "number_key", "object_key", "quarantine_key", "queue_key")

_QUEUE: Final = b"Q"
_OBJECT: Final = b"O"
_QUARANTINED: Final = b"X"

_encode = msgspec.msgpack.Encoder().encode


def queue_key(number: int) -> bytes:
    """Return the key of a queue's definition."""
    return _QUEUE + number.to_bytes(4)


def object_key(kind: str, name: str) -> bytes:
    """Return the key of another object's definition."""
    return _OBJECT + _encode((kind, name))


def quarantine_key(serial: int) -> bytes:
    """Return the key of a damaged message's note."""
    return _QUARANTINED + serial.to_bytes(8)


def number_key(name: str) -> bytes:
    """Return the key of a number or record of the whole store."""
    return b"S" + name.encode()


class Usage(Struct):
    """How much of a segment is still needed."""

    size: int
    #: All messages written to the segment, and the messages that are still there.
    added: int = 0
    live: int = 0
    added_bytes: int = 0

    @property
    def live_bytes(self) -> int:
        """Return about how many bytes the messages take that are still there."""
        return self.live * self.added_bytes // self.added if self.added else 0


class Contents(Struct):
    """The messages and facts of the log."""

    places: Places = field(default_factory=Places)
    #: The messages with a backout count of their own.
    counts: dict[int, int] = field(default_factory=dict)
    #: Each fact with the segment that holds it.
    facts: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    #: The damaged messages, each with the number of its queue.
    damaged: dict[int, int] = field(default_factory=dict)
    #: The serials of all messages that a replay met, by the number of their queue and their priority.
    met: dict[tuple[int, int], "array[int]"] = field(default_factory=dict)
    #: The segments, the oldest first.
    segments: dict[int, Usage] = field(default_factory=dict)

    def apply(self, record: Record, segment: int) -> None:
        """Take over a record that is in this segment."""
        match record:
            case Added(at, serial, queue, order_priority, descriptor_bytes=descriptor_bytes, body_bytes=body_bytes):
                try:
                    self.met[queue, order_priority].append(serial)
                except KeyError:
                    self.met[queue, order_priority] = array("Q", (serial,))
                self.add(serial, segment, at, ADDED_BYTES + descriptor_bytes + body_bytes)
            case Removed(serials):
                self.remove(serials)
            case Counted(serial, backout_count):
                self.count(serial, backout_count)
            case Fact(key, value):
                self.know(key, value, segment)

    def add(self, serial: int, segment: int, offset: int, record_bytes: int) -> None:
        """Note where a message is. A copy of a message replaces the earlier record."""
        before = self.places.set(serial, place(segment, offset))
        if before:
            self._leave(before)
        usage = self.segments[segment]
        usage.added += 1
        usage.live += 1
        usage.added_bytes += record_bytes

    def remove(self, serials: tuple[int, ...] | list[int]) -> None:
        """Forget messages."""
        for serial in serials:
            if before := self.places.pop(serial):
                self._leave(before)
            if self.counts:
                self.counts.pop(serial, None)

    def count(self, serial: int, backout_count: int) -> None:
        """Note a backout count. A count only grows: a count that waited for room must not replace a later count."""
        if self.places.get(serial):
            self.counts[serial] = max(backout_count, self.counts.get(serial, 0))

    def know(self, key: bytes, value: bytes | None, segment: int) -> None:
        """Take over a fact, or forget it."""
        if value is None:
            self.facts.pop(key, None)
        else:
            self.facts[key] = segment, value
        if key.startswith(_QUARANTINED):
            serial = int.from_bytes(key[1:])
            if value is None:
                self.damaged.pop(serial, None)
            else:
                self.damaged[serial] = msgspec.msgpack.decode(value, type=tuple[int, str])[0]

    def number(self, name: str, default: int) -> int:
        """Return a number of the whole store."""
        found = self.facts.get(number_key(name))
        return default if found is None else msgspec.msgpack.decode(found[1], type=int)

    def queues(self) -> Iterator[tuple[int, QueueAttributes]]:
        """Yield each queue with its number, in order of number."""
        for key, (_, value) in sorted(self.facts.items()):
            if key.startswith(_QUEUE):
                yield int.from_bytes(key[1:]), msgspec.msgpack.decode(value, type=QueueAttributes)

    def objects(self) -> list[tuple[int, str, str, bytes]]:
        """Return the other objects, each with its rank, kind, name and attributes, in the order of their first definition."""
        found: list[tuple[int, str, str, bytes]] = []
        for key, (_, value) in self.facts.items():
            if key.startswith(_OBJECT):
                kind, name = msgspec.msgpack.decode(key[1:], type=tuple[str, str])
                rank, attributes = msgspec.msgpack.decode(value, type=tuple[int, bytes])
                found.append((rank, kind, name, attributes))
        return sorted(found)

    def quarantined(self) -> tuple[tuple[int, str], ...]:
        """Return the damaged messages: the serial and the reason."""
        return tuple(
            (serial, msgspec.msgpack.decode(self.facts[quarantine_key(serial)][1], type=tuple[int, str])[1])
            for serial in sorted(self.damaged)
        )

    def _leave(self, before: int) -> None:
        usage = self.segments.get(segment_and_offset(before)[0])
        if usage is not None:
            usage.live -= 1
