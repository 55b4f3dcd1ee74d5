"""The disk space that a queue manager reserves, so that applications can get messages even when the disk is full.

Even a removal writes to the log, so without a reserve no application could empty a queue on a full disk. There are two
measures. The store refuses puts while the disk still has some room. When the disk is full, the store deletes a ballast file,
which only reserves space. This file knows bytes, but no message.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mqflow.embedded.storage.folder import DataFolder

__all__ = ("BALLAST_BYTES", "Reserve")

BALLAST_BYTES = 8 * 1024 * 1024
"""More bytes than the database can grow in a checkpoint of the longest log."""


class Reserve:
    """The reserve on the disk of one data folder. `reusable_bytes` returns the free bytes inside the database file."""

    def __init__(self, folder: DataFolder, free_bytes_min: int, reusable_bytes: Callable[[], int]) -> None:
        self._folder = folder
        self._free_bytes_min = free_bytes_min
        self._reusable_bytes = reusable_bytes
        #: True if the ballast file exists, at its full length.
        self.held: bool = folder.ballast.exists() and folder.ballast.stat().st_size == BALLAST_BYTES

    def admits(self, needed_bytes: int) -> bool:
        """Return whether the disk has room for `needed_bytes`. If the ballast file is missing, write it again first."""
        free = self._free_bytes()
        if not self.held:
            ballast = self._folder.ballast
            kept_bytes = ballast.stat().st_size if ballast.exists() else 0
            if free + kept_bytes < self._free_bytes_min + BALLAST_BYTES or not self._make():
                return False
            free = self._free_bytes()
        wanted = self._free_bytes_min + needed_bytes
        return free >= wanted or free + self._reusable_bytes() >= wanted

    def release(self) -> None:
        """Delete the ballast file, to make room on the disk."""
        self._folder.ballast.unlink(missing_ok=True)
        self.held = False

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """If the block of the `with` statement frees room on a full disk, use this room for a ballast file.

        The file keeps the room from other programs until the next start. It can be shorter than a full ballast file.
        """
        before = self._free_bytes()
        yield
        given_back = self._free_bytes() - before
        if not self.held and given_back > 0 and not self._folder.ballast.exists():
            self._write(min(given_back, BALLAST_BYTES))

    def _free_bytes(self) -> int:
        found = os.statvfs(self._folder.path)
        return found.f_bavail * found.f_frsize

    def _make(self) -> bool:
        self.held = self._write(BALLAST_BYTES)
        if not self.held:
            self._folder.ballast.unlink(missing_ok=True)
        return self.held

    def _write(self, size: int) -> bool:
        """Make a ballast file of `size` bytes. Return whether the disk had room for all of them.

        If the file system can, it only reserves the blocks. If not, zeros are written, which takes a hundred times as long.
        """
        try:
            descriptor = os.open(
                self._folder.ballast, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            try:
                with suppress(OSError, AttributeError):  # macOS has no such function
                    os.posix_fallocate(descriptor, 0, size)
                    return True
                return os.write(descriptor, bytes(size)) == size
            finally:
                os.close(descriptor)
        except OSError:
            return False
