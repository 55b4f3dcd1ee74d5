"""Whether a data folder is still its owner's: the lock, the epoch written beside it, and the files as the owner left them.

A lock alone is not enough: files are moved, copies are restored over them, file systems grant a lock twice. SQLite notices
none of it, because the owner's connection reads from its own memory. Knows files; knows no SQL and no rule of MQ.
"""

import os

from mqflow.embedded.storage.folder import DataFolder, FileIdentity
from mqflow.embedded.storage.owner_lock import OwnerLock

__all__ = ("Fence",)

FileState = tuple[int, int, int, int]
"""Device, inode, length and time of the last write, which only a checkpoint of the owner may change."""


class Fence:
    """What the owner last knew of its folder. Three looks at files, some microseconds, before each transaction."""

    def __init__(self, lock: OwnerLock, folder: DataFolder) -> None:
        self._lock = lock
        self._path = os.fspath(folder.database)
        self._log_path = f"{self._path}-wal"
        self.renew()

    def renew(self) -> None:
        """Take the files as they are now: after a checkpoint, the only time that the owner writes to the database itself."""
        self._database = _state(self._path)
        self._log = _identity(self._log_path)

    def broken(self) -> str:
        """Return what shows that the folder is somebody else's now, or another one; empty where it is still the owner's."""
        if not self._lock.held:
            return "its lock was deleted, replaced, or taken by a later owner"
        if _state(self._path) != self._database:
            return "its database was deleted, replaced, or written to by somebody else"
        log = _identity(self._log_path)
        if self._log is None:  # SQLite makes it with the first transaction
            self._log = log
        return "" if log == self._log else "the log of its database was deleted or replaced"


def _identity(path: str) -> FileIdentity | None:
    found = _state(path)
    return None if found is None else found[:2]


def _state(path: str) -> FileState | None:
    try:
        found = os.lstat(path)  # not Path.stat, which takes four times as long: this is once a commit
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
