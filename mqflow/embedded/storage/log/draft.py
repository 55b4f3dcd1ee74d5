"""Turns changes into the records of one group. The contents of the log change only when the group is written.

This module does no I/O.
"""

import contextlib
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, assert_never

import msgspec

from mqflow.embedded.storage.log.contents import Contents, number_key, object_key, quarantine_key, queue_key
from mqflow.embedded.storage.log.groups import Added, added_record, counted_record, fact_record, removed_record, seed_of
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    ObjectDeleted,
    QueueCleared,
    QueueDefined,
    QueueDeleted,
    QueueManagerDefined,
    StoredMessage,
)

__all__ = ("SERIALS_RESERVED", "Draft")

SERIALS_RESERVED: Final = 1 << 20
"""The number of serials that one fact reserves, so that most puts do not write that fact."""

_encode = msgspec.msgpack.Encoder().encode


class Draft:
    """The records of a group that is not yet written. `on_queue` finds all messages of a queue in the log by its number."""

    def __init__(
        self, sequence: int, contents: Contents, queue_numbers: dict[str, int], on_queue: Callable[[int], Iterable[int]]
    ) -> None:
        self.sequence = sequence
        self._seed = seed_of(sequence)
        self._contents = contents
        self._on_queue = on_queue
        #: The short numbers that stand for queues in the records of messages.
        self.queue_numbers = queue_numbers
        self._parts: list[bytes] = []
        #: The bytes of the added messages.
        self._length = 0
        #: For each added message: its serial, where its record begins, its length, and the number of its queue.
        self.added: list[tuple[int, int, int, int]] = []
        self.counted: dict[int, int] = {}
        self.removed: list[int] = []
        self.facts: dict[bytes, bytes | None] = {}
        self._noted = contents.number("next_serial", 1)

    def take(self, changes: Iterable[Change]) -> None:
        """Add the records of these changes."""
        for change in changes:
            match change:
                case MessageAdded(message):
                    self._add(message)
                case MessageRemoved(serial):
                    self._remove(serial)
                case BackoutCounted(serial, backout_count):
                    self.counted[serial] = max(backout_count, self.counted.get(serial, 0))
                case _:
                    self._define(change)

    def copy(self, found: Added, descriptor: bytes, body: bytes) -> None:
        """Add the record of a message that is already in the log, and its backout count."""
        head = found.serial, found.queue, found.order_priority, found.expires_at, found.put_at
        self._append(found.serial, found.queue, added_record(self._seed, *head, descriptor, body))
        if found.serial in self._contents.counts:
            self.counted[found.serial] = self._contents.counts[found.serial]

    def note(self, name: str, number: int) -> None:
        """Add the record of a number of the whole store."""
        self.facts[number_key(name)] = _encode(number)

    def set_aside(self, serial: int, queue: int, why: str) -> None:
        """Add the record of a damaged message."""
        self.facts[quarantine_key(serial)] = _encode((queue, why))

    def payload(self) -> bytes:
        """Return the records: messages, counts, removals, facts."""
        rest = (
            *(counted_record(self._seed, serial, count) for serial, count in self.counted.items()),
            *((removed_record(self._seed, self.removed),) if self.removed else ()),
            *(fact_record(self._seed, key, value) for key, value in self.facts.items()),
        )
        return b"".join(chain(self._parts, rest))

    def enter(self, segment: int, start: int) -> None:
        """Enter the records into the contents: the group is in this segment, and its first record begins at `start`."""
        contents = self._contents
        for serial, offset, length, _ in self.added:
            contents.add(serial, segment, start + offset, length)
        for serial, count in self.counted.items():
            contents.count(serial, count)
        contents.remove(self.removed)
        for key, value in self.facts.items():
            contents.know(key, value, segment)

    def _add(self, message: StoredMessage) -> None:
        assert message.body is not None, "a message is added whole"  # noqa: S101 - the queue manager's promise, not a user's
        queue = self.queue_numbers[message.queue]
        record = added_record(
            self._seed,
            message.serial,
            queue,
            message.order_priority,
            message.expires_at,
            message.put_at,
            _encode(message.descriptor),
            message.body,
        )
        self._append(message.serial, queue, record)
        if message.serial >= self._noted:
            self._noted = message.serial + SERIALS_RESERVED
            self.note("next_serial", self._noted)

    def _append(self, serial: int, queue: int, record: tuple[bytes, bytes, bytes]) -> None:
        length = sum(map(len, record))
        self.added.append((serial, self._length, length, queue))
        self._parts += record
        self._length += length

    def _remove(self, serial: int) -> None:
        self.removed.append(serial)
        if self._contents.damaged and serial in self._contents.damaged:
            self.facts[quarantine_key(serial)] = None

    def _define(
        self, change: QueueDefined | QueueDeleted | QueueCleared | QueueManagerDefined | ObjectDefined | ObjectDeleted
    ) -> None:
        self.queue_numbers = dict(self.queue_numbers)
        match change:
            case QueueDefined(attributes):
                number = self.queue_numbers.setdefault(attributes.name, max(self.queue_numbers.values(), default=0) + 1)
                self.facts[queue_key(number)] = _encode(attributes)
            case QueueDeleted(name, serials):
                self._empty(name, serials)
                with contextlib.suppress(KeyError):  # a temporary dynamic queue was never written
                    self.facts[queue_key(self.queue_numbers.pop(name))] = None
            case QueueCleared(name, serials):
                self._empty(name, serials)
            case QueueManagerDefined(attributes):
                self.facts[number_key("queue_manager")] = _encode(attributes)
            case ObjectDefined(kind, name, attributes=encoded):
                self.facts[object_key(kind, name)] = _encode((self._rank(object_key(kind, name)), encoded))
            case ObjectDeleted(kind, name):
                self.facts[object_key(kind, name)] = None
            case _:
                assert_never(change)

    def _rank(self, key: bytes) -> int:
        """Return the rank of an object: its own, or the next one for a new object."""
        known = self.facts[key] if key in self.facts else self._contents.facts.get(key, (0, None))[1]
        if known is not None:
            return msgspec.msgpack.decode(known, type=tuple[int, bytes])[0]
        noted = self.facts.get(number_key("next_rank"))
        rank = self._contents.number("next_rank", 1) if noted is None else msgspec.msgpack.decode(noted, type=int)
        self.note("next_rank", rank + 1)
        return rank

    def _empty(self, name: str, serials: Iterable[int] | None) -> None:
        number = self.queue_numbers.get(name)
        if number is None:
            return
        if serials is None:
            serials = (*self._on_queue(number), *(serial for serial, _, _, queue in self.added if queue == number))
        for serial in serials:
            self._remove(serial)
        for serial, queue in self._contents.damaged.items():
            if queue == number:
                self._remove(serial)
