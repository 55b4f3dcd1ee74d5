"""Writes changes to one SQLite file: a transaction for each group, and a checkpoint of the log from time to time.

It implements `medium.Medium`. `rows` turns changes into SQL, `database` opens the file, and `snapshot_loader` reads it. This
module knows no thread and no caller.
"""

import errno
import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from mqflow.embedded.storage.fence import FileWatch
from mqflow.embedded.storage.folder import DataFolder, sync_folder
from mqflow.embedded.storage.medium import DamagedError, NoRoomError
from mqflow.embedded.storage.requests import log_bytes
from mqflow.embedded.storage.sqlite import rows
from mqflow.embedded.storage.sqlite.database import (
    PAGE_BYTES,
    WRITE_FIRST_PAGE,
    adopt_copy,
    close_unwritten,
    is_full,
    mark_copy,
    open_database,
)
from mqflow.embedded.storage.sqlite.snapshot_loader import load_snapshot, note_serials, read_catalogue, read_epoch
from mqflow.embedded.storage.sqlite.synced_log import SyncedLog
from mqflow.embedded.storage.store import Change, Snapshot, StoredIdentifiers, StoredMessage
from mqflow.world import SYSTEM_RANDOM

__all__ = ("SqliteMedium",)

# The most pages in the log before a checkpoint. The ballast must be larger than the growth of the database in a checkpoint.
_LOG_PAGES_MAX: Final = 1000
# The pages that a commit adds to the log in addition to its changes.
_COMMIT_PAGES: Final = 2


class SqliteMedium:
    """The SQLite file of a folder, open until `close`."""

    def __init__(self, folder: DataFolder) -> None:
        #: The file that an error about damage shows.
        self.path: Final = folder.database
        self._folder = folder
        adopt_copy(folder)
        self._synced = SyncedLog(folder)
        try:
            self._database = open_database(folder)
        except BaseException:
            self._synced.close()
            raise
        self._file = FileWatch(folder.database)
        self._log = FileWatch(folder.log)
        #: `load` sets it. The store calls `load` before the first change.
        self._catalogue: rows.Catalogue
        #: The names of the queues, by their numbers; None after a change.
        self._queues: dict[int, str] | None = None
        #: The file with the serial numbers for the next load.
        self._serials = folder.serials
        self._log_pages = 0
        #: True if the next transaction begins the log again.
        self._begins_log = False
        #: The last value of `PRAGMA synchronous`; empty until the first transaction.
        self._synchronous = ""

    def load(self, held: Mapping[int, int], now: float) -> Snapshot:
        """Durably count every delivery in `held` as backed out, and return the contents."""
        try:
            with _full_disk_noticed(self._folder):
                snapshot = load_snapshot(self._database, self._serials, held, now)
                self._catalogue = read_catalogue(self._database)
        except NoRoomError:
            self._roll_back()
            raise
        except sqlite3.DatabaseError as error:
            raise DamagedError(str(error)) from error
        if not self._synced.is_clean:
            self.make_room()
        return snapshot

    def epoch(self) -> int:
        """Return how many owners the file has had, including the present owner."""
        return read_epoch(self._database)

    def make(self, changes: Iterable[Change], *, synced: bool) -> None:
        """Make the changes in one transaction."""
        taken = list(changes)
        self._queues = None
        self._transact(self._catalogue.statements(taken), synced=synced)
        self._log_pages += _COMMIT_PAGES + log_bytes(taken) // PAGE_BYTES

    def read_messages(self, serials: Sequence[int]) -> Generator[StoredMessage | DamagedError, None, None]:
        """Yield each message, or the error for a damaged message. One query reads each range of consecutive serial numbers."""
        if self._queues is None:
            self._queues = {number: name for name, number in self._catalogue.queue_ids.items()}
        with closing(self._rows(serials)) as found:
            for serial, row in found:
                try:
                    yield rows.message_of(self._row(rows.MESSAGE, serial) if row is None else row, self._queues)
                except DamagedError as error:
                    yield error

    def read_identifiers(self, serial: int) -> StoredIdentifiers:
        """Return the identifiers of a message. Raises `DamagedError`."""
        return rows.identifiers_of(self._row(rows.HEAD, serial))

    def set_aside(self, damaged: Sequence[tuple[int, str]], now: float) -> None:
        """Record the damage of these messages."""
        self._transact([(rows.QUARANTINE, [(serial, why, now) for serial, why in damaged])], synced=False)

    def tidy(self) -> None:
        """If the log is long, copy it into the database. SQLite then overwrites the log from its beginning."""
        if self._log_pages > _LOG_PAGES_MAX:
            self._checkpoint()

    def make_room(self) -> None:
        """Copy the log into the database. SQLite then overwrites the log from its beginning. A full disk can delay this.

        The log file keeps its length, because on a full disk another program would take the room of a shorter log.
        """
        with suppress(NoRoomError):
            self._checkpoint()

    def shrink(self) -> None:
        """Copy the log into the database, and truncate the log."""
        with suppress(NoRoomError):
            self._checkpoint()  # first, so that a kill never leaves an empty log with a note of its frames
            self._checkpoint("TRUNCATE")

    def needed_bytes(self, added_bytes: int) -> int:
        """Return the bytes that the changes need in the log and later in the database, plus the bytes of the present log."""
        return 2 * added_bytes + self._log_pages * PAGE_BYTES

    def reusable_bytes(self) -> int:
        """Return the bytes of the free pages."""
        [(pages,)] = self._database.execute("PRAGMA freelist_count").fetchall()
        return int(pages) * PAGE_BYTES

    def changed_by_others(self) -> str:
        """Return the evidence that another program changed the database or its log, or an empty text."""
        if not self._file.unchanged():
            return "its database was deleted, replaced, or written to by another program"
        return "" if self._log.same_file() else "the log of its database was deleted or replaced"

    def backup(self, target: DataFolder) -> None:
        """Copy the durable contents into a new file in `target`. Writers wait during the copy.

        The file gets its name only when it is complete and synced. So a kill leaves no database, and the next copy can succeed.
        Raises `FileExistsError` if the folder has a database by then.
        """
        if target.in_use:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target.database))
        for killed in target.half_copies():
            killed.unlink(missing_ok=True)
        half = target.half_copy(f"{int(SYSTEM_RANDOM.random() * 2**48):012x}")
        try:
            self._copy(half)
            mark_copy(half)
            _sync(half)
            _name(half, target.database)
        finally:
            half.unlink(missing_ok=True)
        sync_folder(target.path)

    def _copy(self, path: Path) -> None:
        # SQLite would create a file that every user can read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(path)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")  # a new file has nothing to roll back, and a kill leaves no second file
            try:
                with _full_disk_noticed(self._folder):
                    self._database.backup(copy)
            except sqlite3.Error as error:
                raise OSError(str(error)) from error

    def close(self, *, write: bool) -> None:
        """Close the files. If `write` is true, first copy the log into the database, otherwise leave the files as they are."""
        if write:
            note_serials(self._database, self._serials)
            self.make_room()
            self._database.close()
        else:
            close_unwritten(self._database)
        self._synced.close()

    def _rows(self, serials: Sequence[int]) -> Generator[tuple[int, tuple[Any, ...] | None], None, None]:
        """Yield each serial number with the row of its message, or None if the query for many messages did not return it."""
        for first, last in _runs(serials):
            following = first
            with suppress(sqlite3.DatabaseError), closing(self._database.execute(rows.MESSAGES, (first, last))) as found:
                for row in found:
                    if not following <= row[0] <= last:  # the file is damaged
                        break
                    for gone in range(following, row[0]):
                        yield gone, None
                    following = row[0] + 1
                    yield row[0], row
            yield from ((unread, None) for unread in range(following, last + 1))

    def _row(self, query: str, serial: int) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self._database.execute(query, (serial,)).fetchone()
        except sqlite3.DatabaseError as error:
            raise DamagedError(str(error)) from error
        return found

    def _transact(self, statements: Iterable[rows.Statement], *, synced: bool) -> None:
        synchronous = "FULL" if synced else "NORMAL"
        try:
            with _full_disk_noticed(self._folder):
                if synchronous != self._synchronous:  # this statement takes a tenth of the time of a transaction
                    self._database.execute(f"PRAGMA synchronous = {synchronous}")
                    self._synchronous = synchronous
                self._database.execute("BEGIN IMMEDIATE")
                if self._begins_log:
                    self._database.execute(WRITE_FIRST_PAGE)
                for sql, parameters in statements:
                    self._database.executemany(sql, parameters)
                self._database.execute("COMMIT")
                self._begins_log = False
        except NoRoomError:
            self._synced.distrust()
            self._roll_back()
            self._catalogue = read_catalogue(self._database)
            raise
        if synced:
            self._synced.note()

    def _roll_back(self) -> None:
        if self._database.in_transaction:  # SQLite may already have rolled back
            self._database.execute("ROLLBACK")

    def _checkpoint(self, mode: str = "PASSIVE") -> None:
        try:
            with _full_disk_noticed(self._folder):
                [(_, pages, copied)] = self._database.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
            if pages == copied:
                self._synced.forget()
                self._begins_log = True
            self._log_pages = 0
        finally:
            self._file.renew()
            self._log.renew()


def _runs(serials: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each range of consecutive serial numbers."""
    first = 0
    for at in range(1, len(serials) + 1):
        if at == len(serials) or serials[at] != serials[at - 1] + 1:
            yield serials[first], serials[at - 1]
            first = at


def _name(file: Path, name: Path) -> None:
    """Give the file this name. Raises `FileExistsError` if another process has just made a file with this name."""
    try:
        name.hardlink_to(file)
    except OSError:  # perhaps a file system without links
        if name.exists():
            raise
        file.replace(name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disk_noticed(folder: DataFolder) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if is_full(error, folder):
            raise NoRoomError(str(error)) from error
        raise
