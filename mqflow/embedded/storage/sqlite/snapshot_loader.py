"""Reads a database when a store opens it, without descriptors and bodies, and repairs the state after a crash.

The load is one transaction on a given connection. A closing store records the serial numbers of its messages in a file, so that
the next load need not read the whole database. A message in quarantine stays in the database, but is on no queue. This module
knows no thread.
"""

import os
import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.embedded.storage.sqlite import rows
from mqflow.embedded.storage.sqlite.database import WRITE_FIRST_PAGE
from mqflow.embedded.storage.store import Snapshot, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes

__all__ = ("load_snapshot", "note_serials", "read_catalogue", "read_epoch")

_ROWS_AT_ONCE: Final = 65_536
# A database with fewer pages (16 MiB) is read quickly, so it needs no file with serial numbers.
_NOTED_PAGES_MIN: Final = 4096
_NOTED: Final = "noted_serials"

_SMALL_TABLES: Final = ("state", "queue", "object", "backout", "quarantine")
_ORPHANS: Final = (
    "DELETE FROM backout WHERE serial NOT IN (SELECT serial FROM message)",
    "DELETE FROM quarantine WHERE serial NOT IN (SELECT serial FROM message)",
)
# SQLite joins the serial numbers of a group into one text, because a row for each message would cost three times as much.
_SERIALS: Final = (
    "SELECT queue, order_priority, group_concat(serial) "
    "FROM (SELECT serial, queue, order_priority FROM message WHERE serial > ? ORDER BY serial LIMIT ?) "
    "GROUP BY queue, order_priority"
)


class _Found(Struct):
    """The rows read so far."""

    queues: dict[int, QueueAttributes]
    counts: dict[int, int]
    #: The reason for the quarantine, by serial number.
    quarantined: dict[int, str]
    serials: list[StoredSerials]


class _Note(Struct, frozen=True):
    """The serial numbers of all messages in a database at the time when its owner closed it."""

    epoch: int
    #: For each group of messages: its queue, its `order_priority`, and the serial numbers as an array of 8-byte numbers.
    serials: list[tuple[str, int, bytes]]


def load_snapshot(database: sqlite3.Connection, note: Path, held: Mapping[int, int], now: float) -> Snapshot:
    """Durably count every delivery in `held` as backed out, and return the contents of the database.

    The last owner may have recorded the serial numbers in the file `note`. `held` has the messages that this owner left in
    units of work: serial number, and the BackoutCount of the delivery. A message without a queue or with a damaged backout
    count goes to quarantine. Raises `DamagedRowError` or `sqlite3.DatabaseError` if the damage is not limited to messages.
    """
    state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
    noted = _noted(note, state)
    _check_structure(database, *(_SMALL_TABLES if noted else ()))
    database.execute("BEGIN IMMEDIATE")
    database.execute(WRITE_FIRST_PAGE)
    for statement in _ORPHANS:
        database.execute(statement)
    found = _Found(dict(_queues(database)), {}, _quarantined(database), [])
    _read_counts(database, found)
    _count_held(database, found, held)
    if noted:
        _take_noted(noted, found)
    else:
        _read_serials(database, found)
    database.execute("DELETE FROM state WHERE key = ?", (_NOTED,))
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
        objects=tuple(map(rows.object_of, database.execute("SELECT kind, name, attributes, crc FROM object ORDER BY id"))),
    )


def note_serials(database: sqlite3.Connection, note: Path) -> None:
    """Write the serial numbers of all messages into the file `note`, for the next load. After this call, no message may change.

    The database keeps a digest of the note, and the next load removes the digest, so an old note is never used. If the disk is
    full or something is damaged, no note is written, and the next load reads the database.
    """
    [(pages,)] = database.execute("PRAGMA page_count").fetchall()
    if pages < _NOTED_PAGES_MIN:
        return
    with suppress(OSError, sqlite3.DatabaseError, rows.DamagedRowError):
        _check_structure(database)
        found = _Found(dict(_queues(database)), {}, _quarantined(database), [])
        known = found.quarantined.copy()
        _read_serials(database, found)
        if found.quarantined == known:
            entries = [(entry.queue, entry.order_priority, bytes(array("q", entry.serials))) for entry in found.serials]
            encoded = msgspec.msgpack.encode(_Note(read_epoch(database), entries))
            _write(note, encoded)
            database.executemany(rows.SET_STATE, [rows.state_row(_NOTED, _digest(encoded))])


def _digest(encoded: bytes) -> bytes:
    from hashlib import blake2b  # noqa: PLC0415 - the import loads OpenSSL, and a small database has no note

    return blake2b(encoded).digest()


def _write(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as written:
        written.write(data)
        written.flush()
        os.fsync(file)


def _noted(note: Path, state: Mapping[str, bytes]) -> _Note | None:
    """Return the note of the last owner; None if there is no note, or if it does not fit the state of the database."""
    if _NOTED not in state:
        return None
    try:
        encoded = note.read_bytes()
    except OSError:
        return None
    if _digest(encoded) != msgspec.msgpack.decode(state[_NOTED], type=bytes):
        return None
    found = msgspec.msgpack.decode(encoded, type=_Note)
    # An older mqflow does not remove the digest, but every owner changes the epoch.
    return found if found.epoch == _number(state, "epoch", 0) else None


def _take_noted(note: _Note, found: _Found) -> None:
    numbers = {attributes.name: number for number, attributes in found.queues.items()}
    for name, order_priority, serials in note.serials:
        _add_serials(found, numbers.get(name, name), order_priority, array("q", serials))


def read_catalogue(database: sqlite3.Connection) -> rows.Catalogue:
    """Return the present catalogue of the database, from which the translation of changes into SQL starts."""
    state = rows.state_of(database.execute("SELECT key, value, crc FROM state"))
    return rows.Catalogue(
        queue_ids={attributes.name: number for number, attributes in _queues(database)},
        counted={serial for (serial,) in database.execute("SELECT serial FROM backout")},
        serials_noted=_number(state, "next_serial", 1),
    )


def read_epoch(database: sqlite3.Connection) -> int:
    """Return how many owners the database has had, including the present owner. Each `load_snapshot` adds 1."""
    return _number(rows.state_of(database.execute("SELECT key, value, crc FROM state")), "epoch", 0)


def _check_structure(database: sqlite3.Connection, *tables: str) -> None:
    """Raise `DamagedRowError` if the structure of these tables is damaged. Without `tables`, check the whole file.

    SQLite can silently leave out rows of a damaged table. If the serial numbers come from the note, the damage is found when a
    missing message is read.
    """
    for checked in tables or ("1",):
        [(verdict,)] = database.execute(f"PRAGMA quick_check({checked})").fetchmany(1)
        if verdict != b"ok":
            raise rows.DamagedRowError(verdict.decode(errors="replace"))


def _queues(database: sqlite3.Connection) -> Iterator[tuple[int, QueueAttributes]]:
    return (rows.queue_of(row) for row in database.execute("SELECT id, attributes, crc FROM queue ORDER BY id"))


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
    """Find the messages without reading descriptors and bodies. `rows.message_of` checks each row when a get needs it."""
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


def _add_serials(found: _Found, queue: object, order_priority: object, serials: Sequence[int]) -> None:
    """Record the messages of one queue and priority. Rows without a known queue are damaged, and go to quarantine."""
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
