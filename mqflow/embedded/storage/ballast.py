"""The disk space that a queue manager reserves, so that an application can still get messages on a full disk.

A removal needs room in the log too. Without a reserve, no application could empty a queue on a full disk. Two measures help.
The store refuses puts while the disk still has some room. When the disk is full, the store deletes a ballast file, which has no
other use. This file knows bytes, but no message.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mqflow.embedded.storage.folder import DataFolder

__all__ = ("BALLAST_BYTES", "Reserve")

BALLAST_BYTES = 8 * 1024 * 1024
"""More bytes than a checkpoint of the longest log can add to the database."""


class Reserve:
    """Room on the disk of one data folder. `reusable_bytes` returns the free bytes within the database's own file."""

    def __init__(self, folder: DataFolder, free_bytes_min: int, reusable_bytes: Callable[[], int]) -> None:
        self._folder = folder
        self._free_bytes_min = free_bytes_min
        self._reusable_bytes = reusable_bytes
        self._held = folder.ballast.exists() and folder.ballast.stat().st_size == BALLAST_BYTES

    def admits(self, needed_bytes: int) -> bool:
        """Return whether the disk has room for `needed_bytes`. If the ballast file was deleted, write it again first."""
        free = self._free_bytes()
        if not self._held:
            if free + self._kept_bytes() < self._free_bytes_min + BALLAST_BYTES or not self._make():
                return False
            free = self._free_bytes()
        wanted = self._free_bytes_min + needed_bytes
        return free >= wanted or free + self._reusable_bytes() >= wanted

    def release(self) -> None:
        """Delete the ballast file, so that the disk has room again."""
        self._folder.ballast.unlink(missing_ok=True)
        self._held = False

    @property
    def held(self) -> bool:
        """Whether the ballast file exists, with its whole length."""
        return self._held

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """If the block of the `with` statement frees room on a full disk, take this room for a ballast file.

        So no other program takes the room before the next start. The file can be shorter than a whole ballast.
        """
        before = self._free_bytes()
        yield
        given_back = self._free_bytes() - before
        if not self._held and given_back > 0 and not self._folder.ballast.exists():
            self._write(min(given_back, BALLAST_BYTES))

    def _kept_bytes(self) -> int:
        ballast = self._folder.ballast
        return ballast.stat().st_size if ballast.exists() else 0

    def _free_bytes(self) -> int:
        found = os.statvfs(self._folder.path)
        return found.f_bavail * found.f_frsize

    def _make(self) -> bool:
        self._held = self._write(BALLAST_BYTES) == BALLAST_BYTES
        if not self._held:
            self._folder.ballast.unlink(missing_ok=True)
        return self._held

    def _write(self, size: int) -> int:
        """Write a ballast of up to `size` bytes; return the bytes that the disk had room for."""
        try:
            descriptor = os.open(
                self._folder.ballast, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            try:
                return os.write(descriptor, bytes(size))
            finally:
                os.close(descriptor)
        except OSError:
            return 0
