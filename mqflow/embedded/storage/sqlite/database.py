"""The SQLite file of a data folder: its settings, its tables, and the checks that refuse other files.

This file knows the format of the SQLite file, but no changes to queues and no threads.
"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Final

from mqflow.embedded.storage.folder import (
    DamagedFolderError,
    DataFolder,
    FolderError,
    FolderVersionError,
    ForeignFolderError,
    ForeignLogError,
    UnsafeFolderError,
    UnusableFileError,
)
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_RANDOM

__all__ = (
    "APPLICATION_ID",
    "DATABASE_HEAD_BYTES",
    "FORMAT_VERSION",
    "PAGE_BYTES",
    "WRITE_FIRST_PAGE",
    "adopt_copy",
    "check_identity",
    "check_log",
    "check_version",
    "close_unwritten",
    "is_full",
    "mark_copy",
    "open_database",
)

APPLICATION_ID: Final = int.from_bytes(b"mqfl")
FORMAT_VERSION: Final = 2
PAGE_BYTES: Final = 4096
WRITE_FIRST_PAGE: Final = f"PRAGMA user_version = {FORMAT_VERSION}"
"""Writes the first page in a transaction. Each log begins with this page, so that `check_log` knows its database."""
# The versions for writing and for reading in the header of an SQLite file: 2 with a log, 1 without. Only a backup that no queue
# manager has opened yet has no log.
_JOURNAL: Final = slice(18, 20)
_WITH_LOG: Final = b"\2\2"
_WITHOUT_LOG: Final = b"\1\1"
# Positions in the header of an SQLite file (SQLite's file format, 1.3): the file change counter, user_version, application_id.
# The last position has a copy of the counter, which shows that the size in the header is valid.
_MAGIC: Final = b"SQLite format 3\0"
_COUNTER_AT: Final = 24
_VERSION_AT: Final = 60
_APPLICATION: Final = slice(68, 72)
_SIZE_VALID_FOR_AT: Final = 92
DATABASE_HEAD_BYTES: Final = 100
"""The length of the header of an SQLite file."""
_COUNTERS: Final = 2**32
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_PROBE_BYTES: Final = 16 * PAGE_BYTES
# The errors of SQLite if this user cannot write the file, or cannot make a file in its folder.
_NO_RIGHT: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)

# The owner has the only connection: before 3.51.3, SQLite can corrupt a write-ahead log that two connections checkpoint at the
# same time. No automatic checkpoint, because it hides a failed sync. No mmap, because a failed read would raise a signal.
_SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA mmap_size = 0",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
)

# All objects except queues: topics, subscriptions, channels and so on.
_OBJECTS: Final = """CREATE TABLE object (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, attributes BLOB NOT NULL, crc INTEGER NOT NULL,
    UNIQUE (kind, name))"""
# Messages have only one index, by serial number. All other indexes are in memory, where random keys are cheap. The backout
# count has a table of its own, so that a backout does not write a large body again.
_TABLES: Final = (
    "CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE queue (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, attributes BLOB NOT NULL, crc INTEGER NOT NULL)",
    """CREATE TABLE message (
        serial INTEGER PRIMARY KEY, queue INTEGER NOT NULL, order_priority INTEGER NOT NULL, expires_at REAL,
        put_at REAL NOT NULL, crc INTEGER NOT NULL, body_crc INTEGER NOT NULL, descriptor BLOB NOT NULL, body BLOB NOT NULL)""",
    "CREATE TABLE backout (serial INTEGER PRIMARY KEY, count INTEGER NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE quarantine (serial INTEGER PRIMARY KEY, why TEXT NOT NULL, found_at REAL NOT NULL)",
    _OBJECTS,
    f"PRAGMA application_id = {APPLICATION_ID}",
    WRITE_FIRST_PAGE,
)

_UPGRADES: Final = {
    # Up to version 1, queues were the only objects. An older mqflow would ignore the stored subscriptions, and silently
    # deliver nothing to them. The new version number prevents this.
    2: (_OBJECTS,)
}


def mark_copy(path: Path) -> None:
    """Write into the header of a new backup that the file has no log. The caller must sync the file."""
    descriptor = os.open(path, os.O_WRONLY | _FLAGS)
    try:
        os.pwrite(descriptor, _WITHOUT_LOG, _JOURNAL.start)
    finally:
        os.close(descriptor)


def adopt_copy(folder: DataFolder) -> None:
    """If the database file is a new backup, durably write into its header that it has a log from now on.

    The file change counter gets a new random value, by which `check_log` knows the logs of this file. Raises `ForeignLogError`
    before any change if there is a log already: SQLite would apply the changes of another database.
    """
    if not folder.in_use:
        return
    header = bytearray(_header(folder))
    is_known = header[_APPLICATION] == APPLICATION_ID.to_bytes(4) and _version_in(header) <= FORMAT_VERSION
    if not is_known or header[_JOURNAL] != _WITHOUT_LOG:
        return
    if folder.log.exists() and folder.log.stat().st_size:
        raise ForeignLogError(folder.database, folder.log)
    header[_JOURNAL] = _WITH_LOG
    before, counter = _counter_in(header), int(SYSTEM_RANDOM.random() * _COUNTERS)
    for at in (_COUNTER_AT, _SIZE_VALID_FOR_AT):
        if header[at : at + 4] == before.to_bytes(4):  # if the copy differs, the size stays invalid
            header[at : at + 4] = counter.to_bytes(4)
    # Not by SQLite, whose own journal could survive a power cut, and undo this write when the file has a log already.
    descriptor = os.open(folder.database, os.O_WRONLY | _FLAGS)
    try:
        os.pwrite(descriptor, header, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_log(folder: DataFolder, head: bytes, frames: int) -> None:
    """Check the header that SQLite will read from the log, before SQLite opens the log. `frames` is the length of the log.

    Raises `ForeignLogError` if the log belongs to another database file, and `FolderVersionError` if a newer mqflow wrote it.
    SQLite adds at most 1 to the file change counter when it writes the first page into a frame.
    """
    if not head:
        return
    header = _header(folder) if folder.in_use else b""
    counted = _counter_in(head) - _counter_in(header)
    if not header or counted % _COUNTERS > frames:
        raise ForeignLogError(folder.database, folder.log)
    if (found := _version_in(head)) > FORMAT_VERSION:
        raise FolderVersionError(folder.path, found, FORMAT_VERSION)


def open_database(folder: DataFolder) -> sqlite3.Connection:
    """Return the only connection to the folder's SQLite file. Create the file if needed. One thread at a time can use it.

    Raises `ForeignFolderError`, `FolderVersionError` or `DamagedFolderError` before any change of the file. Raises
    `UnsafeFolderError` if another program has opened the file, and `UnusableFileError` if this user has no right to write the
    file or its folder. Raises `MQIError` 2192 if the disk has no room for a new file.
    """
    is_new = not folder.database.exists()
    if is_new and folder.half_copies():
        raise ForeignFolderError(folder.path, "it has only a backup that is not complete")
    # SQLite would create a file that every user can read. The log gets the same mode as the file.
    os.close(os.open(folder.database, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600))
    try:
        database = sqlite3.connect(folder.database, isolation_level=None, check_same_thread=False, cached_statements=64)
    except sqlite3.DatabaseError as error:  # SQLite reads the header of the file already here
        raise _not_opened(error, folder) from error
    database.text_factory = bytes  # a damaged text must not fail before the check of its CRC
    try:
        # Before the first read, so that SQLite keeps the index of the log in memory: a full disk has no room for an index file.
        database.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        _recognise(database, folder)
        for setting in _SETTINGS:
            database.execute(setting).fetchall()
        if _number(database, "PRAGMA application_id") == 0:
            _change(database, _TABLES)
        _upgrade(database)
        _check_columns(database, folder)
    except sqlite3.DatabaseError as error:
        close_unwritten(database)
        if is_full(error, folder):
            what = "for a new queue manager" if is_new else "left"
            detail = f"There is no room {what} in {folder.path}"
            raise error_for(Reason.STORAGE_MEDIUM_FULL, "MQCONN", detail=detail) from error
        raise _not_opened(error, folder) from error
    except UnicodeDecodeError as error:  # the sqlite3 module cannot decode the error of SQLite, which quotes a damaged name
        close_unwritten(database)
        raise _damaged_table(folder) from error
    except BaseException:
        close_unwritten(database)
        raise
    return database


def close_unwritten(database: sqlite3.Connection) -> None:
    """Close the database, and leave its file and its log as they are. SQLite would copy the log into the file and delete it."""
    with suppress(sqlite3.ProgrammingError):  # the database is closed already
        database.interrupt()  # the close then ends its copy before the first page
    database.close()


def _not_opened(error: sqlite3.DatabaseError, folder: DataFolder) -> FolderError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # errors of the sqlite3 module itself have no code
    if code == sqlite3.SQLITE_BUSY:
        found = f"another program has opened {folder.database.name}"
        return UnsafeFolderError(folder.path, found, "Nothing was changed. End that program, and try again")
    if code in _NO_RIGHT:
        return UnusableFileError(folder.database, str(error))
    return DamagedFolderError(folder.database, str(error))


def check_version(folder: DataFolder) -> None:
    """Raise `FolderVersionError` if a newer mqflow wrote the header of the database file. Another process can own the file.

    The header gets a new version only when the owner copies the log into the file. `open_database` also sees the log.
    """
    found = _version_in(_header(folder))
    if found > FORMAT_VERSION:
        raise FolderVersionError(folder.path, found, FORMAT_VERSION)


def check_identity(folder: DataFolder) -> None:
    """Raise `ForeignFolderError` if the header of the file is not that of a queue manager's database."""
    header = _header(folder)
    if header and not header.startswith(_MAGIC):
        raise ForeignFolderError(folder.database, "it is not an SQLite database")
    application = int.from_bytes(header[_APPLICATION])
    if application not in {0, APPLICATION_ID}:
        raise _of_another(folder, application)


def is_full(error: sqlite3.Error, folder: DataFolder) -> bool:
    """Return whether the error means a full disk or a used-up quota of the user. If so, nothing was committed.

    SQLite does not say whether a quota was the reason of a failed write, so this function also tries to write.
    """
    # errors of the sqlite3 module itself have no code, hence getattr
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code & 0xFF == sqlite3.SQLITE_FULL:
        return True
    return (code == sqlite3.SQLITE_IOERR_WRITE or code & 0xFF == sqlite3.SQLITE_CANTOPEN) and not _has_room(folder)


def _has_room(folder: DataFolder) -> bool:
    """Return whether the disk has room for some more pages. Errors other than a full disk or a used-up quota count as room."""
    probe = folder.path / "probe"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
        try:
            return os.write(descriptor, bytes(_PROBE_BYTES)) == _PROBE_BYTES
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno not in {errno.ENOSPC, errno.EDQUOT}
    finally:
        probe.unlink(missing_ok=True)


def _recognise(database: sqlite3.Connection, folder: DataFolder) -> None:
    try:
        application = _number(database, "PRAGMA application_id")
        version = _number(database, "PRAGMA user_version")
        tables = _number(database, "SELECT count(*) FROM sqlite_schema")
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:  # errors of the module itself have no code
            raise ForeignFolderError(folder.database, "it is not an SQLite database") from error
        raise
    if application not in {0, APPLICATION_ID} or (application == 0 and tables):
        raise _of_another(folder, application)
    if version > FORMAT_VERSION:
        raise FolderVersionError(folder.path, version, FORMAT_VERSION)


def _header(folder: DataFolder) -> bytes:
    descriptor = os.open(folder.database, os.O_RDONLY | _FLAGS)
    try:
        return os.pread(descriptor, DATABASE_HEAD_BYTES, 0)
    finally:
        os.close(descriptor)


def _counter_in(header: bytes | bytearray) -> int:
    return int.from_bytes(header[_COUNTER_AT : _COUNTER_AT + 4])


def _version_in(header: bytes | bytearray) -> int:
    return int.from_bytes(header[_VERSION_AT : _VERSION_AT + 4])


def _of_another(folder: DataFolder, application: int) -> ForeignFolderError:
    return ForeignFolderError(folder.database, f"it is another application's database (application id {application:#x})")


def _damaged_table(folder: DataFolder) -> DamagedFolderError:
    return DamagedFolderError(folder.database, "the definition of a table is damaged")


def _upgrade(database: sqlite3.Connection) -> None:
    for version in range(_number(database, "PRAGMA user_version") + 1, FORMAT_VERSION + 1):
        _change(database, (*_UPGRADES[version], f"PRAGMA user_version = {version}"))


def _check_columns(database: sqlite3.Connection, folder: DataFolder) -> None:
    """Refuse a file with a damaged table definition. Without this check, every read would put its message in quarantine."""
    if not _expected_columns() <= _columns(database):
        raise _damaged_table(folder)


@cache
def _expected_columns() -> set[object]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.text_factory = bytes  # as for the database
        _change(made, _TABLES)
        return _columns(made)


def _columns(database: sqlite3.Connection) -> set[object]:
    """Return the table, number, name, type, NOT NULL, default and key of each column."""
    query = "SELECT tables.name, columns.* FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns"
    return set(database.execute(query))


def _change(database: sqlite3.Connection, statements: Sequence[str]) -> None:
    database.execute("BEGIN IMMEDIATE")  # with identity and version, so a half-made file counts as empty
    for statement in statements:
        database.execute(statement)
    database.execute("COMMIT")


def _number(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])
