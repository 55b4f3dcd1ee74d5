"""The decision ledger: the history of messages, as events in an SQLite file of limited size beside the data.

A hook writes events to the file; functions read them in any process, even while the hook writes. The ledger never delays a
delivery: if it cannot write an event, it drops the event and counts it. This file opens no queue manager.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Literal, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.channels.location import SERVED_SOCKET, locate
from mqflow.app.config.settings import LedgerSettings
from mqflow.events import (
    DeadLetterActed,
    Decided,
    Delivered,
    Disposed,
    Edited,
    Event,
    HandlerStuck,
    InDoubt,
    ListenerPaused,
    ReportSent,
    Settled,
    WaitsOnQueue,
)
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Settlement, Undecodable, without_exception
from mqflow.world import SYSTEM_WORLD, Clock, Running, World

__all__ = (
    "LEDGER_FILE",
    "DecisionLedger",
    "Entry",
    "LedgerError",
    "MessageEvent",
    "Record",
    "entries_after",
    "known_messages",
    "last_disposals",
    "last_entries",
    "ledger_file",
    "open_ledger",
    "story",
)

LEDGER_FILE: Final = "decisions.db"
"""The name of the file. It is in the folder of the data."""

Record = Literal["troubled", "all"]
"""The messages that have entries. "troubled": only messages that failed or needed a decision. "all": every message."""

MessageEvent = (
    Delivered | Decided | Disposed | Settled | WaitsOnQueue | InDoubt | ReportSent | ListenerPaused | HandlerStuck
    | DeadLetterActed | Edited
)  # fmt: skip
"""The events that concern a message."""

_ABOUT_MESSAGES: Final = frozenset(get_args(MessageEvent))
# Tuples, because this is used for every event, and each use of a union makes a new object.
_WITH_OUTCOME: Final = (Decided, Disposed, Settled)
_FAILURES: Final = (Failed, Undecodable)

_Happened = tuple[float, MessageEvent]
"""An event, and its time in seconds since 1970."""

_log: Final = logging.getLogger(__name__)
_OTHER_FAILED: Final = Interrupted("another message of the unit of work failed")
_VERSION: Final = 1
_UNDER_WAY_MAX: Final = 10_000
_MAILBOX_MAX: Final = 100_000
_BATCH_MAX: Final = 1_000
_BUSY_S: Final = 10.0
_END_DIGITS_MIN: Final = 8
_GATHER_S: Final = 0.01
_SCHEMA: Final = """
    CREATE TABLE entry (id INTEGER PRIMARY KEY, at REAL NOT NULL, message TEXT NOT NULL, event BLOB NOT NULL);
    CREATE INDEX entry_by_message ON entry (message);
"""


class Entry(Struct, frozen=True):
    """One event of a message, with the time of the event."""

    #: Seconds since 1970, UTC.
    at: float
    message_id: bytes
    event: MessageEvent


class LedgerError(Exception):
    """The ledger cannot be used: the file does not exist or cannot be written, or is not a ledger of this version."""


class DecisionLedger:
    """A hook for an `App` that writes events to the ledger. It never blocks, never raises and never stops a delivery."""

    #: The classes of events that this hook receives.
    wants: Final = get_args(MessageEvent)

    def __init__(
        self, path: Path, *, record: Record = "troubled", entries_max: int = 200_000, world: World = SYSTEM_WORLD
    ) -> None:
        #: The file of the ledger. The first entry creates it, and starts the writer's thread.
        self.path: Final = path
        #: The number of entries that were lost, because the writer was too slow or could not write the file.
        self.dropped: int = 0
        self._troubled: Final = None if record == "all" else _Troubled(world.clock)
        self._entries_max = entries_max
        self._world = world
        self._mailbox: SimpleQueue[_Happened | None] = SimpleQueue()
        self._closing: Final = world.runner.event()
        self._writer: Running | None = None

    def __call__(self, event: Event) -> None:
        """Pass the event to the writer. It makes an entry for each message of the event."""
        if type(event) not in _ABOUT_MESSAGES or (self._troubled is not None and self._troubled.is_clean(event)):
            return
        if isinstance(event, _WITH_OUTCOME) and isinstance(event.outcome, _FAILURES):
            event = replace(event, outcome=without_exception(event.outcome))  # an event can wait long for the writer
        # cast: `_ABOUT_MESSAGES` has the types of this union
        timed = (self._world.clock.wall(), cast("MessageEvent", event))
        if self._troubled is None:
            self._post(timed)  # the writer makes the entries, because its time is not critical
            return
        for about_one in _entries(timed):
            for entry in self._troubled.select(about_one):
                self._post((entry.at, entry.event))

    def check_writable(self) -> None:
        """Create the file if it does not exist. Raises `LedgerError` if the ledger cannot be written now."""
        try:
            with closing(_open_for_writing(self.path)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"The decision ledger {self.path} cannot be written: {error}.") from error

    def close(self) -> None:
        """Write all events to the file and end the writer. Waits at most 10 seconds."""
        if self._writer is not None:
            self._mailbox.put(None)
            self._closing.set()
            self._writer.join(_BUSY_S)
            self._writer = None
            self._closing.clear()

    def _post(self, happened: _Happened) -> None:
        if self._mailbox.qsize() >= _MAILBOX_MAX:
            self.dropped += sum(1 for _ in _entries(happened))
            return
        if self._writer is None:
            self._writer = self._world.runner.start(self._write, "mqflow decision ledger")
        self._mailbox.put(happened)

    def _write(self) -> None:
        """Write one batch after the other until `close` is called. Runs on the writer's thread."""
        connection: sqlite3.Connection | None = None
        while batch := self._next_batch():
            entries = [entry for happened in batch if happened is not None for entry in _entries(happened)]
            try:
                connection = connection or _open_for_writing(self.path)
                _insert(connection, entries, self._entries_max)
            except (sqlite3.Error, UnicodeError, OSError, LedgerError) as error:
                if not self.dropped:  # warn only once: `dropped` counts further failures
                    _log.warning("The decision ledger %s cannot be written: %s. Deliveries go on without it.", self.path, error)
                self.dropped += len(entries)
            if batch[-1] is None:
                break
        if connection is not None:
            connection.close()

    def _next_batch(self) -> list[_Happened | None]:
        """Wait for an event, and return it with further events, at most `_BATCH_MAX`. A None from `close` comes last.

        After the first event, wait a moment for more, because waking this thread takes longer than writing an event.
        """
        batch = [self._mailbox.get()]
        if batch[-1] is not None and self._mailbox.qsize() < _BATCH_MAX:
            self._closing.wait(_GATHER_S)
        while batch[-1] is not None and len(batch) < _BATCH_MAX:
            try:
                batch.append(self._mailbox.get_nowait())
            except Empty:
                break
        return batch


def ledger_file(url: str, settings: LedgerSettings) -> Path | None:
    """Return the file for a queue manager's ledger: the file that the settings name, otherwise a file beside the data.

    Returns None if the settings name no file and the data is not in a local folder. A served queue manager is reached through
    a socket in its data folder. So all its applications find this folder and share the ledger.
    """
    if settings.file:
        return Path(settings.file)
    location = locate(url)
    match location.kind:
        case "embedded" if location.path:
            return location.path / LEDGER_FILE
        case "served" if location.path and location.path.name == SERVED_SOCKET:
            return location.path.parent / LEDGER_FILE
        case _:
            return None


def open_ledger(url: str, settings: LedgerSettings, *, world: World = SYSTEM_WORLD) -> DecisionLedger | None:
    """Return the ledger for this queue manager. None if the settings want no ledger, or the data is not in a local folder."""
    path = ledger_file(url, settings)
    if path is None or settings.record == "nothing":
        return None
    return DecisionLedger(path, record=settings.record, entries_max=settings.entries_max, world=world)


def story(path: Path, message_id: bytes) -> tuple[Entry, ...]:
    """Return the entries of a message, oldest first; empty if the ledger has none.

    Several processes write into one ledger, in groups, so the order of its entries is not the order of their times. Raises
    `LedgerError` if the ledger does not exist or cannot be read.
    """
    with _reading(path) as connection:
        rows = connection.execute("SELECT at, event FROM entry WHERE message = ? ORDER BY at, id", (message_id.hex(),))
        return tuple(Entry(at, message_id, _decode(event)) for at, event in rows)


def entries_after(path: Path, number: int) -> Iterator[tuple[int, Entry]]:
    """Yield the entries whose number is higher than `number`, oldest first, each with its number.

    Numbers increase. If the ledger was created again, its numbers begin with 1 again; then this function yields all entries.
    Raises `LedgerError` if the ledger does not exist or cannot be read.
    """
    with _reading(path) as connection:
        highest = connection.execute("SELECT max(id) FROM entry").fetchone()[0] or 0
        after = number if number <= highest else 0
        rows = connection.execute("SELECT id, at, message, event FROM entry WHERE id > ? ORDER BY id", (after,))
        for found, at, message, event in rows:
            yield found, Entry(at, bytes.fromhex(message), _decode(event))


def last_entries(path: Path, limit: int) -> tuple[Entry, ...]:
    """Return the last `limit` entries of the ledger, newest first. Raises `LedgerError` like `entries_after`."""
    with _reading(path) as connection:
        rows = connection.execute("SELECT at, message, event FROM entry ORDER BY id DESC LIMIT ?", (limit,))
        return tuple(Entry(at, bytes.fromhex(message), _decode(event)) for at, message, event in rows)


@contextmanager
def last_disposals(path: Path) -> Iterator[Callable[[bytes], Disposed | None]]:
    """Yield a function that returns the last `Disposed` event of a message, or None if the ledger has none.

    Raises `LedgerError` if the ledger does not exist or cannot be read.
    """
    with _reading(path) as connection:
        query = "SELECT event FROM entry WHERE message = ? ORDER BY id DESC"

        def last_disposal(message_id: bytes) -> Disposed | None:
            events = (_decode(event) for (event,) in connection.execute(query, (message_id.hex(),)))
            return next((event for event in events if isinstance(event, Disposed)), None)

        yield last_disposal


def known_messages(path: Path, digits: str, *, limit: int = 10) -> tuple[bytes, ...]:
    """Return at most `limit` message identifiers of the ledger that begin with these hexadecimal digits.

    If no identifier begins with the digits, and there are at least 8 digits, return identifiers that end with them. Raises
    `LedgerError` if the ledger does not exist or is unreadable.
    """
    first = digits.lower()
    query = "SELECT DISTINCT message FROM entry WHERE message >= ? AND message < ? ORDER BY message LIMIT ?"
    with _reading(path) as connection:
        rows = connection.execute(query, (first, f"{first}g", limit)).fetchall()  # "g" sorts after every hexadecimal digit
        if not rows and len(first) >= _END_DIGITS_MIN:
            query = "SELECT DISTINCT message FROM entry WHERE substr(message, -?) = ? ORDER BY message LIMIT ?"
            rows = connection.execute(query, (len(first), first, limit)).fetchall()
    return tuple(bytes.fromhex(message) for (message,) in rows)


class _Troubled:
    """Selects the entries of messages that failed or needed a decision. A clean delivery leaves no entry.

    The entry of a first delivery is kept back until its settlement, which shows whether the delivery was clean.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The messages between delivery and settlement, each with the entry that is kept back; None if it was written already.
        self._under_way: dict[bytes, Entry | None] = {}

    def is_clean(self, event: Event) -> bool:
        """Return whether the event needs no entry now: a first delivery, which is kept back, or the commit of a clean delivery.

        If the result is False, the caller must pass the event to `select`. This function is called for nearly every event, so
        it makes no iterator.
        """
        under_way = self._under_way
        if type(event) is Delivered:
            if event.backout_count:
                return False
            under_way[event.message_id] = Entry(self._clock.wall(), event.message_id, event)
            if len(under_way) > _UNDER_WAY_MAX:
                del under_way[next(iter(under_way))]
            return True
        if type(event) is not Settled or event.settlement is not Settlement.COMMIT or type(event.outcome) is not Completed:
            return False
        for message_id in event.message_ids:
            if under_way.get(message_id, event) is None:
                return False
        for message_id in event.message_ids:
            under_way.pop(message_id, None)
        return not event.others

    def select(self, entry: Entry) -> Iterator[Entry]:
        match entry.event:
            case Settled(settlement=Settlement.COMMIT, outcome=Completed()):
                if self._under_way.pop(entry.message_id, entry) is not None:
                    return
            case Settled():
                yield from self._held(entry.message_id)
                del self._under_way[entry.message_id]
            case DeadLetterActed() | Edited():  # not about a delivery, so no entry is kept back
                pass
            case _:
                yield from self._held(entry.message_id)
        yield entry

    def _held(self, message_id: bytes) -> Iterator[Entry]:
        held = self._under_way.get(message_id)
        self._under_way[message_id] = None
        if held is not None:
            yield held


def _entries(happened: _Happened) -> Iterator[Entry]:
    """Yield an entry for each message of the event. The event of a batch becomes one entry for each of its messages."""
    at, event = happened
    match event:
        case Delivered():  # this case comes first, because half of all events are deliveries
            yield Entry(at, event.message_id, event)
        case Settled(message_ids=(message_id,), others=()):
            yield Entry(at, message_id, event)
        case Settled():
            for message_id in event.message_ids:
                yield Entry(at, message_id, replace(event, message_ids=(message_id,), others=()))
            for message_id in event.others:
                yield Entry(at, message_id, replace(event, message_ids=(message_id,), others=(), outcome=_OTHER_FAILED))
        case InDoubt():
            for message_id in event.message_ids:
                yield Entry(at, message_id, replace(event, message_ids=(message_id,)))
        case ListenerPaused(message_id=b""):
            return
        case _:
            yield Entry(at, event.message_id, event)


def _open_for_writing(path: Path) -> sqlite3.Connection:
    if not path.exists():
        _create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        # SQLite does not sync each transaction: a power cut can lose the last second, but the ledger stays readable.
        connection.execute("PRAGMA synchronous=NORMAL")
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    """Create an empty ledger, if no other process does so at the same time.

    The file is made under another name and then linked: two processes must not switch the same file to WAL mode at the same
    time.
    """
    from tempfile import mkstemp  # noqa: PLC0415 - 5 ms, and only the first entry of a new ledger needs it

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600, because exceptions quote messages
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version={_VERSION}")
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def _insert(connection: sqlite3.Connection, entries: list[Entry], entries_max: int) -> None:
    rows = [(entry.at, entry.message_id.hex(), _encode(entry.event)) for entry in entries]
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.executemany("INSERT INTO entry (at, message, event) VALUES (?, ?, ?)", rows)
        connection.execute("DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - ?", (entries_max,))
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerError(
            f"There is no decision ledger at {path}: no application with a ledger has had a troubled message yet."
        )
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)) as connection:
            _check_version(connection, path)
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # sqlite3 raises this for an error text that it cannot decode
        raise LedgerError(f"The decision ledger {path} cannot be read: {error}.") from error
    except msgspec.DecodeError as error:
        problem = f"has an entry that this version of mqflow cannot read: {error}"
        raise LedgerError(f"The decision ledger {path} {problem}.") from error


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found != _VERSION:
        raise LedgerError(f"The decision ledger {path} has format {found}; this version of mqflow knows format {_VERSION}.")


_encode: Final = msgspec.json.Encoder().encode


@cache
def _decoder() -> msgspec.json.Decoder[MessageEvent]:
    """Return the decoder. It takes milliseconds to make, so an application that only writes never makes it."""
    return msgspec.json.Decoder(MessageEvent)


def _decode(event: bytes) -> MessageEvent:
    return _decoder().decode(event)
