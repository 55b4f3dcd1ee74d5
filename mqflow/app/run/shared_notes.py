"""Notes about failed messages, in a file that several processes of one host share.

`mqflow run --workers` makes the file for its workers. The file contains no message, and is never synced. After a crash of the
host, each message has another token, so old notes fit no message.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from mqflow.policy.poison.disposition import Failed, Outcome
from mqflow.runtime.message_notes import MemoryNotes, Note

__all__ = ("SharedNotes",)

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_BUSY_S: Final = 5.0
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS note (
    queue TEXT NOT NULL,
    key BLOB NOT NULL,
    forgiven INTEGER NOT NULL DEFAULT 0,
    failure BLOB,
    is_condemned INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID
"""
_FORGIVE: Final = """
INSERT INTO note (queue, key, forgiven) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET forgiven = forgiven + 1
"""
_FAILURE: Final = """
INSERT INTO note (queue, key, failure, is_condemned) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET failure = excluded.failure, is_condemned = max(is_condemned, excluded.is_condemned)
"""


class SharedNotes:
    """The notes of one queue, in a shared file. If the file cannot be used, the notes are in the memory of this process."""

    def __init__(self, path: Path, queue: str) -> None:
        self._path: Final = path
        self._queue: Final = queue
        self._memory: Final = MemoryNotes()
        self._file: sqlite3.Connection | None = None
        self._has_warned = False

    def read(self, key: bytes) -> Note:
        """Return the note about the message."""

        def read(file: sqlite3.Connection) -> Note:
            query = "SELECT forgiven, failure, is_condemned FROM note WHERE queue = ? AND key = ?"
            row = file.execute(query, (self._queue, key)).fetchone()
            if row is None:
                return Note()
            forgiven, failure, is_condemned = row
            return Note(forgiven, None if failure is None else _outcome(failure), bool(is_condemned))

        return self._use(read, lambda: self._memory.read(key))

    def forgive(self, keys: Iterable[bytes]) -> None:
        """Record one backout that these messages did not cause."""
        rows = [(self._queue, key) for key in keys]
        if rows:
            self._write(_FORGIVE, rows, lambda: self._memory.forgive(key for _, key in rows))

    def note_failure(self, key: bytes, outcome: Outcome, *, is_condemned: bool = False) -> None:
        """Record the last failure of the message."""
        row = (self._queue, key, msgspec.json.encode(outcome), is_condemned)
        self._write(_FAILURE, [row], lambda: self._memory.note_failure(key, outcome, is_condemned=is_condemned))

    def forget(self, key: bytes) -> None:
        """Forget the note about a message that has left its queue."""
        self._write("DELETE FROM note WHERE queue = ? AND key = ?", [(self._queue, key)], lambda: self._memory.forget(key))

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]], otherwise: Callable[[], None]) -> None:
        def write(file: sqlite3.Connection) -> None:
            with file:
                file.execute("BEGIN IMMEDIATE")
                file.executemany(statement, rows)

        self._use(write, otherwise)

    def _use(self, work: Callable[[sqlite3.Connection], T], otherwise: Callable[[], T]) -> T:
        try:
            if self._file is None:
                self._file = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
                self._file.executescript(_SCHEMA)
            return work(self._file)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self.close()
            if not self._has_warned:
                self._has_warned = True
                _log.warning("The notes about failed messages are not shared with other processes. %s: %s", self._path, error)
            return otherwise()


def _outcome(failure: bytes) -> Outcome:
    try:
        return msgspec.json.decode(failure, type=Outcome)
    except msgspec.DecodeError as error:  # another version of mqflow can have written it
        return Failed("UnreadableNote", f"the note of another process about the last failure cannot be read: {error}")
