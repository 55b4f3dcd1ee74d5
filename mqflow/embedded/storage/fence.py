"""The fence of a data folder: before each transaction the owner checks that it still owns the folder.

A lock alone is not enough: people move files and restore copies over them, and some file systems grant a lock twice. SQLite
does not notice, because the owner's connection reads from its own memory. The fence checks the lock, the epoch (owner
number) in the lock file, and whether another process changed the files. This module knows no SQL and no rule of MQ.
"""

import os

from mqflow.embedded.storage.folder import DataFolder, FileIdentity
from mqflow.embedded.storage.owner_lock import OwnerLock

__all__ = ("Fence",)

FileState = tuple[int, int, int, int]
"""Device, inode, length and time of the last write. Only a checkpoint of the owner may change them."""


class Fence:
    """The last known state of the owner's files. A check looks at three files and takes some microseconds."""

    def __init__(self, lock: OwnerLock, folder: DataFolder) -> None:
        self._lock = lock
        self._path = os.fspath(folder.database)
        self._log_path = f"{self._path}-wal"
        self.renew()

    def renew(self) -> None:
        """Remember the present state of the files. Call this after a checkpoint, the only write to the database file itself."""
        self._database = _state(self._path)
        self._log = _identity(self._log_path)

    def broken(self) -> str:
        """Return the evidence that the folder has another owner or other files; an empty text without such evidence."""
        if not self._lock.held:
            return "its lock was deleted, replaced, or taken by a later owner"
        if _state(self._path) != self._database:
            return "its database was deleted, replaced, or written to by another program"
        log = _identity(self._log_path)
        if self._log is None:  # SQLite creates the log with the first transaction
            self._log = log
        return "" if log == self._log else "the log of its database was deleted or replaced"


def _identity(path: str) -> FileIdentity | None:
    found = _state(path)
    return None if found is None else found[:2]


def _state(path: str) -> FileState | None:
    try:
        found = os.lstat(path)  # not Path.stat, which takes four times as long: this runs at each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
