"""Records how much of the write-ahead log is synced, so that the next owner notices if SQLite would read less.

The log consists of frames, each with one page. For SQLite, a broken frame is the end of the log. After a power cut this is
correct, because the broken frame was not synced. But if a synced frame is broken, SQLite loses changes without an error. A
note in a file of its own distinguishes the two cases. Writing the note needs no sync: the note survives a kill of the process.
After a power cut, it never names more frames than were synced. This module knows no row and no SQL.
"""

import contextlib
import errno
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.embedded.storage.folder import DamagedLogError, DataFolder, UnusableFileError, sync_folder
from mqflow.embedded.storage.sqlite.database import PAGE_BYTES, check_log
from mqflow.embedded.storage.sqlite.wal import LOG_HEAD_BYTES, SALTS, Read, WriteAheadLog, committed_frames, page_of, read_log

__all__ = ("Mark", "SyncedLog", "forget_lost_log", "loss", "lost_changes")

# The number of the note, the salts, the frames, the page, the CRC of this page in the database; then the CRC of the note.
_NOTE: Final = struct.Struct("<Q8sQII")
_CRC: Final = struct.Struct("<I")
# Two notes alternate, each in its own sector. If a power cut interrupts the write of one note, the other note stays.
_SECTOR_BYTES: Final = 512
_EMPTY: Final = bytes(2 * _SECTOR_BYTES)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class Mark(Struct, frozen=True):
    """The synced part of the log: its number of frames, and its last page."""

    number: int
    salts: bytes
    frames: int
    #: The last synced page, if the log changed this page; otherwise 0. The first page is 1.
    page: int
    #: The CRC of this page in the database, without the change.
    page_crc: int


def loss(log: WriteAheadLog | None, mark: Mark | None, page_crc: int) -> str:
    """Return a clause about the synced part of the log that SQLite would not read; an empty text if SQLite reads all of it.

    `page_crc` is the present CRC of the mark's page in the database. If the log is gone and this page has changed since the
    mark, another program has copied the log into the database. A complete log with other salts is a later log: SQLite begins a
    new log only after it has copied the whole old log.
    """
    match log, mark:
        case _, None:
            return ""
        case None, Mark():
            return f"{mark.frames} synced pages are gone" if mark.page and mark.page_crc == page_crc else ""
        case WriteAheadLog(salts=b""), Mark():
            return f"its header is damaged, and SQLite would not read its {mark.frames} synced pages"
        case WriteAheadLog(salts, frames), Mark() if salts == mark.salts and frames < mark.frames:
            lost = max(1, sum(end <= mark.frames for end in log.ends_behind))
            where = f"it is damaged behind page {frames} of {mark.frames} synced pages, and SQLite would end there silently"
            return f"{where}; at least {lost} synced transactions would be lost"
        case _:
            return ""


class SyncedLog:
    """The log of an open database, and the note about its synced part."""

    def __init__(self, folder: DataFolder) -> None:
        """Check the log before SQLite opens it. A big-endian machine checks nothing, and writes no notes.

        Raises `DamagedLogError` if SQLite would not read every synced frame, and `UnusableFileError` if a file cannot be opened
        or read. Raises `ForeignLogError` if the log belongs to another database, and `FolderVersionError` if a newer mqflow
        wrote it.
        """
        self._database = folder.database
        self._log = folder.log
        self._readers: tuple[int, int] | None = None
        self._descriptor: int | None = None
        self._mark: Mark | None = None
        found: WriteAheadLog | None = None
        if sys.byteorder == "little":
            with _reader(self._log) as read:
                found = read_log(read)
            if found is not None:
                check_log(folder, found.database_head, found.frames)
            self._descriptor = _opened_note(folder.note)
            self._mark = None if self._descriptor is None else _read_mark(self._descriptor)
            if lost := loss(found, self._mark, 0 if self._mark is None else _crc_of_page(self._database, self._mark.page)):
                self.close()
                raise DamagedLogError(folder.path, self._log, lost)
        self._salts = b"" if found is None else found.salts or found.damaged_salts
        self._frames = 0 if found is None else found.frames
        #: True if every frame with the salts of the log is committed. After a broken frame or header this is false, because old
        #: frames can follow the end of the log.
        self.is_clean: bool = found is None or not found.has_more

    def note(self) -> None:
        """Record that the whole log is synced. If that fails, the older note stays: it is still true, but has fewer frames."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # the changes are already durable, so no error may stop the caller
            self._note(self._descriptor, *self._reading())

    def _note(self, descriptor: int, read: Read, read_database: Read) -> None:
        salts = read(0, LOG_HEAD_BYTES)[SALTS]
        if salts != self._salts:
            self._salts, self._frames, self.is_clean = salts, 0, True
        if not self.is_clean:
            return
        self._frames = committed_frames(read, salts, self._frames)
        if not self._frames:
            return
        page, contents = page_of(read, self._frames)
        before = read_database((page - 1) * PAGE_BYTES, PAGE_BYTES)
        number = 1 if self._mark is None else self._mark.number + 1
        self._mark = Mark(number, salts, self._frames, page if before != contents else 0, zlib.crc32(before))
        note = _NOTE.pack(number, salts, self._frames, self._mark.page, self._mark.page_crc)
        os.pwrite(descriptor, note + _CRC.pack(zlib.crc32(note)), number % 2 * _SECTOR_BYTES)

    def distrust(self) -> None:
        """Write no note until SQLite begins the log again: frames of a refused transaction can follow the end of the log."""
        self.is_clean = False

    def forget(self) -> None:
        """Durably delete the note, because the database has all of the log. The caller must do this before the next change."""
        if self._descriptor is None or self._mark is None:
            return
        try:
            os.pwrite(self._descriptor, _EMPTY, 0)  # not truncated: a full disk might have no room for the next note
        except OSError:
            os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)
        self._mark = None

    def close(self) -> None:
        """Close the files. SQLite must have closed the database before, because this call would end SQLite's lock."""
        for descriptor in (self._descriptor, *(self._readers or ())):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._readers = None

    def _reading(self) -> tuple[Read, Read]:
        """Return functions that read the log and the database. Both files stay open until `close`. Raises `OSError`."""
        if self._readers is None:
            log = os.open(self._log, os.O_RDONLY | _FLAGS)
            try:
                self._readers = log, os.open(self._database, os.O_RDONLY | _FLAGS)
            except OSError:
                os.close(log)
                raise
        log, database = self._readers
        return partial(_read_at, log), partial(_read_at, database)


def lost_changes(folder: DataFolder) -> str:
    """Return a clause about synced changes that the next owner could not read; an empty text if it could read all of them.

    The caller owns the folder. Raises like `SyncedLog`, except for `DamagedLogError`.
    """
    try:
        SyncedLog(folder).close()
    except DamagedLogError as error:
        return error.found
    return ""


def forget_lost_log(folder: DataFolder) -> Path | None:
    """Delete the note, so that the next owner opens a damaged log without its unreadable part.

    First keeps a durable copy of the log, and returns its path; None if there is no log. The caller owns the folder. Raises
    `OSError` without a change if the copy fails.
    """
    from shutil import copyfileobj  # noqa: PLC0415 - 1 ms, and only a damaged log needs it

    log, kept = folder.log, None
    if log.exists():
        copies = (log.with_name(f"{log.name}.damaged-{number}") for number in range(1, 1_000_000))
        kept = next(copy for copy in copies if not copy.exists())
        try:
            with (
                log.open("rb") as source,
                os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600), "wb") as copy,
            ):
                copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            sync_folder(folder.path)
        except OSError:
            kept.unlink(missing_ok=True)
            raise
    folder.note.unlink(missing_ok=True)
    return kept


def _crc_of_page(database: Path, page: int) -> int:
    """Return the CRC of this page of the database; after the end of the file, the CRC of no bytes.

    SQLite must not have opened the file yet.
    """
    with _reader(database) as read:
        return zlib.crc32(read((page - 1) * PAGE_BYTES, PAGE_BYTES)) if page else 0


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[Read]:
    """Yield a function that reads the file. Close the file at the end. A missing file counts as empty.

    Raises `UnusableFileError` if the file cannot be opened or read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        yield lambda _offset, _length: b""
        return
    except OSError as error:
        raise UnusableFileError(path, str(error.strerror)) from error
    try:
        yield partial(_read_at, descriptor)
    except OSError as error:
        raise UnusableFileError(path, str(error.strerror)) from error
    finally:
        os.close(descriptor)


def _opened_note(path: Path) -> int | None:
    """Return a descriptor of the note's file; None if the file does not exist and the disk has no room for it.

    Raises `UnusableFileError` if the file cannot be opened for any other reason.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    except OSError as error:
        if error.errno in _NO_ROOM and not path.exists():
            return None
        raise UnusableFileError(path, str(error.strerror)) from error


def _read_mark(descriptor: int) -> Mark | None:
    """Return the later of the two marks in the file; None if both are empty or damaged."""
    found: list[Mark] = []
    for start in (0, _SECTOR_BYTES):
        data = os.pread(descriptor, _NOTE.size + _CRC.size, start)
        note = data[: _NOTE.size]
        if len(data) == _NOTE.size + _CRC.size and data[_NOTE.size :] == _CRC.pack(zlib.crc32(note)) and any(note):
            found.append(Mark(*_NOTE.unpack(note)))
    return max(found, key=lambda mark: mark.number, default=None)


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    return os.pread(descriptor, length, offset)
