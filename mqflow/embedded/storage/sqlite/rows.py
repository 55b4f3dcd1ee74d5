"""Turns changes into SQL, and rows into messages. Only this module knows the columns.

Every row has a CRC of all its columns, because SQLite does not notice a flipped bit. This module executes no SQL, and knows no
thread and no sync.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec
from msgspec import Struct

from mqflow.embedded.storage.medium import DamagedError, NoRoomError
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
    StoredIdentifiers,
    StoredMessage,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor

__all__ = (
    "COUNT",
    "HEAD",
    "MESSAGE",
    "MESSAGES",
    "QUARANTINE",
    "SERIALS_RESERVED",
    "SET_STATE",
    "Catalogue",
    "DamagedRowError",
    "Statement",
    "count_of",
    "count_row",
    "identifiers_of",
    "message_of",
    "object_of",
    "queue_of",
    "state_of",
    "state_row",
)

SERIALS_RESERVED: Final = 1 << 20
"""The number of serial numbers that one state row reserves, so that most puts need not write this row."""

SET_STATE: Final = "INSERT OR REPLACE INTO state (key, value, crc) VALUES (?, ?, ?)"
# A count only increases: a count that waited for disk space must not replace a later count.
COUNT: Final = (
    "INSERT INTO backout (serial, count, crc) VALUES (?, ?, ?) "
    "ON CONFLICT (serial) DO UPDATE SET count = excluded.count, crc = excluded.crc WHERE excluded.count > count"
)
QUARANTINE: Final = "INSERT OR IGNORE INTO quarantine (serial, why, found_at) VALUES (?, ?, ?)"
_HEAD_COLUMNS: Final = "serial, queue, order_priority, expires_at, put_at, message.crc, body_crc, descriptor, length(body)"
HEAD: Final = f"SELECT {_HEAD_COLUMNS} FROM message WHERE serial = ?"  # noqa: S608 - constants
MESSAGE: Final = (
    f"SELECT {_HEAD_COLUMNS}, body, count, backout.crc FROM message LEFT JOIN backout USING (serial) WHERE serial = ?"  # noqa: S608
)
MESSAGES: Final = MESSAGE.replace("= ?", "BETWEEN ? AND ? ORDER BY serial")
_ADD: Final = (
    "INSERT INTO message (serial, queue, order_priority, expires_at, put_at, crc, body_crc, descriptor, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_REMOVE: Final = "DELETE FROM message WHERE serial = ?"
_FORGET_COUNT: Final = "DELETE FROM backout WHERE serial = ?"
_DEFINE: Final = "INSERT OR REPLACE INTO queue (id, name, attributes, crc) VALUES (?, ?, ?, ?)"
_CLEAR: Final = "DELETE FROM message WHERE queue = ?"
_CLEAR_DAMAGED: Final = "DELETE FROM message WHERE serial IN (SELECT serial FROM quarantine) AND queue = ?"
_DELETE: Final = "DELETE FROM queue WHERE id = ?"
# Not "OR REPLACE", which would move the row to the end.
_DEFINE_OBJECT: Final = (
    "INSERT INTO object (kind, name, attributes, crc) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (kind, name) DO UPDATE SET attributes = excluded.attributes, crc = excluded.crc"
)
_DELETE_OBJECT: Final = "DELETE FROM object WHERE kind = ? AND name = ?"

_HEAD_CRC: Final = struct.Struct("<qqq?ddqI")
_PAIR: Final = struct.Struct("<qq")
_encode = msgspec.msgpack.Encoder().encode
_decode_descriptor = msgspec.msgpack.Decoder(MessageDescriptor).decode


class _Identifiers(Struct, gc=False):
    """The identifiers in an encoded descriptor, by which a get can select the message."""

    message_id: bytes = NO_ID
    correlation_id: bytes = NO_ID
    group_id: bytes = NO_ID


_decode_identifiers = msgspec.msgpack.Decoder(_Identifiers).decode

_Row = tuple[Any, ...]  # Any: each column has its own type
Statement = tuple[str, list[_Row]]
"""An SQL statement, and the parameters of each execution."""


_Definition = QueueDefined | QueueDeleted | QueueCleared | QueueManagerDefined | ObjectDefined | ObjectDeleted


class DamagedRowError(DamagedError):
    """The contents of a row differ from those that the store wrote."""


class Catalogue(Struct):
    """The state for turning changes into SQL: that of the file, plus the changes of the present transaction."""

    #: For each queue name, the short number of the queue in the rows of its messages.
    queue_ids: dict[str, int]
    #: Serial numbers that can have a row in `backout`.
    counted: set[int]
    #: Serial numbers below this number are reserved.
    serials_noted: int

    def statements(self, changes: Iterable[Change]) -> Iterator[Statement]:
        """Yield the SQL statements of the changes, with equal statements grouped. Raises `NoRoomError` for an unknown queue.

        Changes to messages are sorted: adds, counts, removals. This changes no result, because no serial number is added twice.
        """
        run = _Run()
        for change in changes:
            match change:
                case MessageAdded(message):
                    yield from self._note_serial(message.serial)
                    number = self.queue_ids.get(message.queue)
                    if number is None:  # a program has put to the queue before its definition was taken back
                        raise NoRoomError(f"the file does not have the queue {message.queue}: its definition had no room")
                    run.added.append(_message_row(message, number))
                case MessageRemoved(serial):
                    run.removed.append((serial,))
                    if serial in self.counted:
                        self.counted.discard(serial)
                        run.forgotten.append((serial,))
                case BackoutCounted(serial, backout_count):
                    self.counted.add(serial)
                    run.counted.append(count_row(serial, backout_count))
                case (
                    QueueDefined() | QueueDeleted() | QueueCleared() | QueueManagerDefined() | ObjectDefined() | ObjectDeleted()
                ):
                    yield from run.statements()
                    run = _Run()
                    yield from self._definition(change)
                case _:
                    assert_never(change)
        yield from run.statements()

    def _note_serial(self, serial: int) -> Iterator[Statement]:
        if serial >= self.serials_noted:
            self.serials_noted = serial + SERIALS_RESERVED
            yield SET_STATE, [state_row("next_serial", self.serials_noted)]

    def _definition(self, change: _Definition) -> Iterator[Statement]:
        match change:
            case QueueDefined(attributes):
                number = self.queue_ids.setdefault(attributes.name, max(self.queue_ids.values(), default=0) + 1)
                value = _encode(attributes)
                yield _DEFINE, [(number, attributes.name, value, zlib.crc32(value, number))]
            case QueueDeleted(name, serials):
                gone = self.queue_ids.pop(name, None)
                yield from _emptied(gone, serials)
                if gone is not None:
                    yield _DELETE, [(gone,)]
            case QueueCleared(name, serials):
                yield from _emptied(self.queue_ids.get(name), serials)
            case QueueManagerDefined(attributes):
                yield SET_STATE, [state_row("queue_manager", attributes)]
            case ObjectDefined(kind, name, attributes=encoded):
                yield _DEFINE_OBJECT, [(kind, name, encoded, _object_crc(kind.encode(), name.encode(), encoded))]
            case ObjectDeleted(kind, name):
                yield _DELETE_OBJECT, [(kind, name)]
            case _:
                assert_never(change)


class _Run:
    """The changes to messages between two changes of other kinds. `statements` puts them in order."""

    def __init__(self) -> None:
        self.added: list[_Row] = []
        self.counted: list[_Row] = []
        self.removed: list[_Row] = []
        self.forgotten: list[_Row] = []

    def statements(self) -> Iterator[Statement]:
        kinds = ((_ADD, self.added), (COUNT, self.counted), (_REMOVE, self.removed), (_FORGET_COUNT, self.forgotten))
        return ((sql, rows) for sql, rows in kinds if rows)


def _emptied(number: int | None, serials: tuple[int, ...] | None) -> Iterator[Statement]:
    """Yield the statements that remove all messages of a queue. A queue without a row (temporary dynamic) needs no statement.

    If the serial numbers are known, SQLite finds each message by its number, and damaged messages by `quarantine`. SQLite
    reads no other row.
    """
    if number is None:
        return
    if serials is None:
        yield _CLEAR, [(number,)]
        return
    if serials:
        yield _REMOVE, [(serial,) for serial in serials]
    yield _CLEAR_DAMAGED, [(number,)]


def count_row(serial: int, backout_count: int) -> tuple[int, int, int]:
    """Return the row of `backout` for the backout count of a message."""
    return serial, backout_count, zlib.crc32(_PAIR.pack(serial, backout_count))


def count_of(row: tuple[int, int, int]) -> int:
    """Return the backout count in a row. Raises `DamagedRowError` if the row is damaged."""
    if count_row(row[0], row[1]) != row:
        raise DamagedRowError("its backout count is damaged")
    return row[1]


def state_row(key: str, value: object) -> tuple[str, bytes, int]:
    """Return the row of `state` for one fact about the whole store."""
    encoded = _encode(value)
    return key, encoded, zlib.crc32(encoded, zlib.crc32(key.encode()))


def state_of(rows: Iterable[tuple[bytes, bytes, int]]) -> dict[str, bytes]:
    """Return the facts about the whole store, still encoded. Raises `DamagedRowError`."""
    found: dict[str, bytes] = {}
    for key, value, check in rows:
        if not isinstance(key, bytes) or not isinstance(value, bytes) or zlib.crc32(value, zlib.crc32(key)) != check:
            raise DamagedRowError("the attributes of the queue manager are damaged")
        found[key.decode()] = value
    return found


def queue_of(row: tuple[int, bytes, int]) -> tuple[int, QueueAttributes]:
    """Return the number and the definition of the queue in a row (id, attributes, crc). Raises `DamagedRowError`."""
    number, value, check = row
    if not isinstance(value, bytes) or zlib.crc32(value, number) != check:
        raise DamagedRowError("the definition of a queue is damaged")
    return number, msgspec.msgpack.decode(value, type=QueueAttributes)


def object_of(row: tuple[bytes, bytes, bytes, int]) -> ObjectDefined:
    """Return the object of a row (kind, name, attributes, crc). Raises `DamagedRowError`."""
    kind, name, value, check = row
    if not isinstance(value, bytes) or _object_crc(kind, name, value) != check:
        raise DamagedRowError("the definition of an object is damaged")
    return ObjectDefined(kind.decode(), name.decode(), value)


def _object_crc(kind: bytes, name: bytes, value: bytes) -> int:
    # The CRC includes the lengths: otherwise the same text, divided differently into kind and name, would have the same CRC.
    return zlib.crc32(value, zlib.crc32(name, zlib.crc32(kind + _PAIR.pack(len(kind), len(name)))))


def message_of(row: _Row | None, queues: Mapping[int, str]) -> StoredMessage:
    """Return the message in a row of `MESSAGE`. Raises `DamagedRowError` if the row is missing or damaged."""
    *head, body, count, count_check = _existing(row)
    serial, queue, order_priority, expires_at, put_at, _, body_check, encoded, body_bytes = head
    _check_head(head)
    if not isinstance(body, bytes) or zlib.crc32(body) != body_check:
        raise DamagedRowError("its body is damaged")
    if queue not in queues:
        raise DamagedRowError(f"its queue (number {queue}) is gone")
    try:
        descriptor = _decode_descriptor(encoded)
    except msgspec.ValidationError as error:  # a program put a field of another type: True as a number, for example
        raise DamagedRowError(f"its descriptor is not valid: {error}") from error
    if count is not None and count_of((serial, count, count_check)) > descriptor.backout_count:
        descriptor = msgspec.structs.replace(descriptor, backout_count=count)
    return StoredMessage(
        serial=serial,
        queue=queues[queue],
        order_priority=order_priority,
        descriptor=descriptor,
        expires_at=expires_at,
        put_at=put_at,
        body=body,
        body_bytes=body_bytes,
    )


def identifiers_of(row: _Row | None) -> StoredIdentifiers:
    """Return the identifiers in a row of `HEAD`. Raises `DamagedRowError` if the row is missing or damaged."""
    row = _existing(row)
    _check_head(row)
    found = _decode_identifiers(row[7])
    return StoredIdentifiers(row[0], found.message_id, found.correlation_id, found.group_id)


def _existing(row: _Row | None) -> _Row:
    if row is None:
        raise DamagedRowError("it is gone")
    return row


def _check_head(head: Sequence[Any]) -> None:
    serial, queue, order_priority, expires_at, put_at, check, body_check, encoded, body_bytes = head
    try:
        found = _head_crc(serial, queue, order_priority, expires_at, put_at, body_bytes, body_check, encoded)
    except (struct.error, TypeError):  # the type of a column has changed
        found = None
    if found != check:
        raise DamagedRowError("its descriptor is damaged")


def _message_row(message: StoredMessage, queue: int) -> _Row:
    encoded = _encode(message.descriptor)
    body_check = zlib.crc32(message.body)
    head = (message.serial, queue, message.order_priority, message.expires_at, message.put_at)
    check = _head_crc(*head, len(message.body), body_check, encoded)
    return *head, check, body_check, encoded, message.body


def _head_crc(
    serial: int,
    queue: int,
    order_priority: int,
    expires_at: float | None,
    put_at: float,
    body_bytes: int,
    body_check: int,
    encoded: bytes,
) -> int:
    head = _HEAD_CRC.pack(serial, queue, order_priority, expires_at is None, expires_at or 0.0, put_at, body_bytes, body_check)
    return zlib.crc32(encoded, zlib.crc32(head))
