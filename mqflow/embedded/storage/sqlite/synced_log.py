"""Notes how much of the write-ahead log was synced, so that the next owner notices if SQLite would read less.

SQLite takes a broken frame for the end of the log. After a power cut that is right, because the broken frame was not synced.
The note tells the two cases apart. Its write costs no sync: it survives a kill, and after a power cut it names at most what
was synced. This module knows no row and no SQL.
"""

import contextlib
import os
import shutil
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.embedded.storage.folder import DamagedLogError, DataFolder
from mqflow.embedded.storage.sqlite.wal import LOG_HEAD_BYTES, SALTS, WriteAheadLog, committed_frames, read_log

__all__ = ("Mark", "SyncedLog", "forget_lost_log", "loss")

# Number of the note, salts, frames, time of the database's last change; then the CRC.
_NOTE: Final = struct.Struct("<Q8sQQ")
_CRC: Final = struct.Struct("<I")
# Two notes take turns, each in a sector of its own: a write that a power cut tears leaves the other note.
_SECTOR_BYTES: Final = 512
_EMPTY: Final = bytes(2 * _SECTOR_BYTES)
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class Mark(Struct, frozen=True):
    """How much of the log was synced."""

    number: int
    salts: bytes
    frames: int
    #: The `st_mtime_ns` of the database after the last checkpoint.
    database_changed_ns: int


def loss(log: WriteAheadLog | None, mark: Mark | None, database_changed_ns: int) -> str:
    """Return a clause that says what of the synced log SQLite would not read; an empty text if it reads all.

    If the log is gone, and the database changed after the mark, another program has copied the log into the database. A whole
    log with other salts is a later log: SQLite begins the log again only after it has copied all of it.
    """
    match log, mark:
        case _, None:
            return ""
        case None, Mark(database_changed_ns=changed):
            return f"{mark.frames} synced pages are gone" if changed == database_changed_ns else ""
        case WriteAheadLog(salts=b""), Mark():
            return f"its header is damaged, and SQLite would not read its {mark.frames} synced pages"
        case WriteAheadLog(salts, frames), Mark() if salts == mark.salts and frames < mark.frames:
            lost = max(1, sum(end <= mark.frames for end in log.ends_behind))
            where = f"it is damaged behind page {frames} of {mark.frames} synced pages, and SQLite would end there silently"
            return f"{where}; at least {lost} synced transactions would be lost"
        case _:
            return ""


class SyncedLog:
    """The log of an open database, and the note beside it."""

    def __init__(self, folder: DataFolder) -> None:
        """Check the log before SQLite opens it. Raises `DamagedLogError` if SQLite would not read all that was synced."""
        self._database = folder.database
        self._log = _log_of(folder)
        found = _found(self._log)
        self._descriptor = _opened(_note_of(folder), os.O_RDWR | os.O_CREAT)
        self._mark = None if self._descriptor is None else _read_mark(self._descriptor)
        if lost := loss(found, self._mark, _changed_ns(self._database)):
            self.close()
            raise DamagedLogError(folder.path, self._log, lost)
        self._reader: int | None = None
        self._salts = b"" if found is None else found.salts
        self._frames = 0 if found is None else found.frames
        self._changed_ns = _changed_ns(self._database)
        #: Whether each frame with the salts of the log is committed. False if remains of other frames can lie behind the end.
        self.is_clean = found is None or not found.has_more

    def note(self) -> None:
        """Note that the whole log is synced. On a full disk the older note stays, which is right, but says less."""
        if self._descriptor is None:
            return
        read = self._reading()
        if read is None:
            return
        salts = read(0, LOG_HEAD_BYTES)[SALTS]
        if salts != self._salts:
            self._salts, self._frames, self.is_clean = salts, 0, True
            self._changed_ns = _changed_ns(self._database)
        if not self.is_clean:
            return
        self._frames = committed_frames(read, salts, self._frames)
        number = 1 if self._mark is None else self._mark.number + 1
        self._mark = Mark(number, salts, self._frames, self._changed_ns)
        note = _NOTE.pack(number, salts, self._frames, self._changed_ns)
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, note + _CRC.pack(zlib.crc32(note)), number % 2 * _SECTOR_BYTES)

    def distrust(self) -> None:
        """Write no note until SQLite begins the log again: remains of a refused transaction can lie behind its end."""
        self.is_clean = False

    def forget(self) -> None:
        """Durably forget the note, because the database has all of the log. The caller calls this before the next change."""
        if self._descriptor is None or self._mark is None:
            return
        try:
            os.pwrite(self._descriptor, _EMPTY, 0)  # not shorter: on a full disk, there may be no room for the next note
        except OSError:
            os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)
        self._mark = None

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._descriptor, getattr(self, "_reader", None)):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._reader = None

    def _reading(self) -> "partial[bytes] | None":
        if self._reader is None:
            self._reader = _opened(self._log, os.O_RDONLY)
        return None if self._reader is None else partial(_read_at, self._reader)


def forget_lost_log(folder: DataFolder) -> Path | None:
    """Let the next owner open a damaged log with its loss. Return the kept copy of the log; None if there is no log.

    The caller owns the folder.
    """
    log, kept = _log_of(folder), None
    if log.exists():
        copies = (log.with_name(f"{log.name}.damaged-{number}") for number in range(1, 1_000_000))
        kept = next(copy for copy in copies if not copy.exists())
        with (
            log.open("rb") as source,
            os.fdopen(os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600), "wb") as copy,
        ):
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
    _note_of(folder).unlink(missing_ok=True)
    return kept


def _log_of(folder: DataFolder) -> Path:
    return folder.database.with_name(f"{folder.database.name}-wal")


def _note_of(folder: DataFolder) -> Path:
    return folder.database.with_name(f"{folder.database.name}-synced")


def _found(log: Path) -> WriteAheadLog | None:
    descriptor = _opened(log, os.O_RDONLY)
    if descriptor is None:
        return None
    try:
        return read_log(partial(_read_at, descriptor))
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int | None:
    """Return a descriptor; None if the file does not exist, or if a full disk has no room for it."""
    try:
        return os.open(path, flags | _FLAGS, 0o600)
    except OSError:
        return None


def _read_mark(descriptor: int) -> Mark | None:
    """Return the later of the two notes; None if both are empty or damaged."""
    found: list[Mark] = []
    for start in (0, _SECTOR_BYTES):
        data = os.pread(descriptor, _NOTE.size + _CRC.size, start)
        note = data[: _NOTE.size]
        if len(data) == _NOTE.size + _CRC.size and data[_NOTE.size :] == _CRC.pack(zlib.crc32(note)) and any(note):
            found.append(Mark(*_NOTE.unpack(note)))
    return max(found, key=lambda mark: mark.number, default=None)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    return os.pread(descriptor, length, offset)
