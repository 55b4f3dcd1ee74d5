"""The fence of a data folder: before each transaction, the owner checks that it still owns the folder.

A lock alone is not enough: people move files and restore copies over them, and some file systems grant a lock twice. The medium
does not notice such a change, because the owner's files stay open. The fence checks the lock, the owner number (epoch) in the
lock file, and whether another process changed the files. This module knows no file format and no rule of MQ.
"""

import os
from collections.abc import Callable
from pathlib import Path

from mqflow.embedded.storage.owner_lock import OwnerLock

__all__ = ("Fence", "FileWatch")

FileState = tuple[int, int, int, int]
"""Device, inode, length, and time of the last write."""


class Fence:
    """Checks the owner's lock and files. `changed_by_others` returns evidence of changes by others, or an empty text."""

    def __init__(self, lock: OwnerLock, changed_by_others: Callable[[], str]) -> None:
        self._lock = lock
        self._changed_by_others = changed_by_others

    def broken(self) -> str:
        """Return the evidence of another owner or of changed files, or an empty text."""
        if not self._lock.held:
            return "its lock was deleted, replaced, or taken by a later owner"
        return self._changed_by_others()


class FileWatch:
    """The last known state of one file. A check takes some microseconds."""

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self.renew()

    def renew(self) -> None:
        """Remember the present state of the file. The owner must call this after each of its writes to the file."""
        self._known = _state(self._path)

    def unchanged(self) -> bool:
        """Return whether nobody has replaced the file or written to it."""
        return _state(self._path) == self._known

    def same_file(self) -> bool:
        """Return whether nobody has deleted or replaced the file. A file that did not exist before becomes the known file."""
        found = _state(self._path)
        if self._known is None:
            self._known = found
        return found == self._known or (found is not None and self._known is not None and found[:2] == self._known[:2])


def _state(path: str) -> FileState | None:
    try:
        found = os.lstat(path)  # Path.stat takes four times as long, and this runs at each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
