"""Reads a database once when a store opens it, except descriptors and bodies, and repairs the state after a crash.

The load runs in one transaction on a given connection. This module knows no thread, and no file except the database.
"""

import sqlite3
from array import array
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.storage import rows
from mqflow.embedded.storage.store import Snapshot, StoredObject, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes

__all__ = ("load_snapshot", "read_catalogue", "read_epoch")

_ROWS_AT_ONCE: Final = 65_536

_ORPHANS: Final = (
    "DELETE FROM backout WHERE serial NOT IN (SELECT serial FROM message)",
    "DELETE FROM quarantine WHERE serial NOT IN (SELECT serial FROM message)",
)
# SQLite writes the serials of a group into one text: a row for each message would cost three times as much.
_SERIALS: Final = (
    "SELECT queue, order_priority, group_concat(serial) "
    "FROM (SELECT serial, queue, order_priority FROM message WHERE serial > ? ORDER BY serial LIMIT ?) "
    "GROUP BY queue, order_priority"
)


class _Found(Struct):
    """The rows that were read so far."""

    queues: dict[int, QueueAttributes]
    counts: dict[int, int]
    #: Maps each quarantined serial to the reason.
    quarantined: dict[int, str]
    serials: list[StoredSerials]


def load_snapshot(database: sqlite3.Connection, held: Mapping[int, int], now: float) -> Snapshot:
    """Durably count every delivery in `held` as backed out, and return the contents of the database.

    `held` has the serials that were in units of work when the last owner ended, each with the BackoutCount of its delivery.
    A message without a queue or with a damaged backout count goes to quarantine. Raises `DamagedRowError` or
    `sqlite3.DatabaseError` if more is damaged than messages.
    """
    _check_structure(database)
    state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
    database.execute("BEGIN IMMEDIATE")
    for statement in _ORPHANS:
        database.execute(statement)
    found = _Found(dict(_queues(database)), {}, _quarantined(database), [])
    _read_counts(database, found)
    _count_held(database, found, held)
    _read_serials(database, found)
    database.executemany(rows.QUARANTINE, [(serial, why, now) for serial, why in found.quarantined.items()])
    next_serial = _number(state, "next_serial", 1)
    database.executemany(
        rows.SET_STATE,
        [
            rows.state_row("next_serial", next_serial + rows.SERIALS_RESERVED),
            rows.state_row("epoch", _number(state, "epoch", 0) + 1),
        ],
    )
    database.execute("COMMIT")
    known = state.get("queue_manager")
    return Snapshot(
        queue_manager=None if known is None else msgspec.msgpack.decode(known, type=QueueManagerAttributes),
        queues=tuple(found.queues.values()),
        serials=found.serials,
        next_serial=next_serial,
        quarantined=tuple(sorted(found.quarantined.items())),
        objects=tuple(_objects(database)),
    )


def read_catalogue(database: sqlite3.Connection) -> rows.Catalogue:
    """Return the catalogue of the database as it is now. The translation of changes to SQL starts from this catalogue."""
    state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
    return rows.Catalogue(
        queue_ids={attributes.name: number for number, attributes in _queues(database)},
        counted={serial for (serial,) in database.execute("SELECT serial FROM backout")},
        serials_noted=_number(state, "next_serial", 1),
    )


def read_epoch(database: sqlite3.Connection) -> int:
    """Return how many owners the database has had, including the present owner. Each `load_snapshot` adds one."""
    return _number(rows.state_of(database.execute("SELECT key, value, crc FROM state")), "epoch", 0)


def _check_structure(database: sqlite3.Connection) -> None:
    """Raise `DamagedRowError` if the structure of the file is damaged. Otherwise missing rows could go unnoticed."""
    [(verdict,)] = database.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != b"ok":
        raise rows.DamagedRowError(verdict.decode(errors="replace"))


def _queues(database: sqlite3.Connection) -> Iterator[tuple[int, QueueAttributes]]:
    return (rows.queue_of(row) for row in database.execute("SELECT id, attributes, crc FROM queue ORDER BY id"))


def _objects(database: sqlite3.Connection) -> Iterator[StoredObject]:
    return (rows.object_of(row) for row in database.execute("SELECT kind, name, attributes, crc FROM object ORDER BY id"))


def _quarantined(database: sqlite3.Connection) -> dict[int, str]:
    return {serial: why.decode(errors="replace") for serial, why in database.execute("SELECT serial, why FROM quarantine")}


def _read_counts(database: sqlite3.Connection, found: _Found) -> None:
    for row in database.execute("SELECT serial, count, crc FROM backout"):
        try:
            found.counts[row[0]] = rows.count_of(row)
        except rows.DamagedRowError as error:
            found.quarantined.setdefault(row[0], str(error))


def _count_held(database: sqlite3.Connection, found: _Found, held: Mapping[int, int]) -> None:
    for serial, backout_count in held.items():
        if database.execute("SELECT 1 FROM message WHERE serial = ?", (serial,)).fetchone():
            found.counts[serial] = max(found.counts.get(serial, 0), backout_count + 1)
            database.execute(rows.COUNT, rows.count_row(serial, found.counts[serial]))


def _read_serials(database: sqlite3.Connection, found: _Found) -> None:
    """Find the messages without reading their descriptors and bodies: `rows.message_of` checks each row when it is read."""
    last, count = -1, _ROWS_AT_ONCE
    while count == _ROWS_AT_ONCE:
        before, count = last, 0
        for queue, order_priority, text in database.execute(_SERIALS, (before, _ROWS_AT_ONCE)):
            serials = sorted(map(int, text.split(b",")))
            if serials[0] <= before or len(set(serials)) < len(serials):
                raise rows.DamagedRowError("the order of the messages is damaged")
            count += len(serials)
            last = max(last, serials[-1])
            _add_serials(found, queue, order_priority, serials)


def _add_serials(found: _Found, queue: object, order_priority: object, serials: list[int]) -> None:
    """Note the messages of one queue and priority. A row without a known queue is damaged, and goes to quarantine."""
    attributes = found.queues.get(queue) if isinstance(queue, int) else None
    if attributes is None:
        found.quarantined.update((serial, f"its queue (number {queue!r}) is gone") for serial in serials)
    elif not isinstance(order_priority, int):
        found.quarantined.update(dict.fromkeys(serials, "its descriptor is damaged"))
    else:
        if found.quarantined:
            serials = [serial for serial in serials if serial not in found.quarantined]
        if serials:
            found.serials.append(StoredSerials(attributes.name, order_priority, array("q", serials)))


def _number(state: Mapping[str, bytes], key: str, default: int) -> int:
    value = state.get(key)
    return default if value is None else msgspec.msgpack.decode(value, type=int)
