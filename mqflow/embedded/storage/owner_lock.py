"""The lock that makes one process the only owner of a data folder.

The lock is an advisory `flock` on a file that has no other use. This module knows no other file of the folder.
"""

import contextlib
import fcntl
import os
import weakref
from collections.abc import Callable
from pathlib import Path

from mqflow.embedded.storage.folder import DataFolder, FolderInUseError, UnsafeFolderError, UnusableFileError, file_identity

__all__ = ("OwnerLock", "call_in_forks", "take_ownership")

_ATTEMPTS = 8
# How often and how long to wait for a process that only reads the owner. It has the lock for microseconds, or a bit longer.
_LOOKS = 20
_LOOK_S = 0.001
# The file has the process id of the owner, then its epoch.
_FIELD_BYTES = 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnerLock:
    """The ownership of a folder. It ends with `release`, with the process, or with a fork (in the child)."""

    def __init__(self, path: Path, descriptor: int, on_fork: Callable[[], None]) -> None:
        self._path = path
        self._descriptor = descriptor
        self._identity = file_identity(path)
        self._record = self._read()
        self._on_fork = on_fork
        call_in_forks(self.disown)

    @property
    def held(self) -> bool:
        """True if the lock file is still the file that this process locked, without the epoch of a later owner.

        A later owner exists only if the file system grants the lock twice. Each owner has its own epoch.
        """
        try:
            found = os.lstat(self._path)  # Path.stat takes four times as long, and this runs at each commit
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity and self._descriptor >= 0 and self._read() == self._record

    def claim(self, epoch: int) -> None:
        """Write this owner's epoch into the file, so that an earlier owner notices that it has lost the folder."""
        with contextlib.suppress(OSError):  # a full disk
            os.pwrite(self._descriptor, f"{epoch:<{_FIELD_BYTES - 1}}\n".encode(), _FIELD_BYTES)
        self._record = self._read()

    def release(self) -> None:
        """Allow another process to own the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bytes:
        return os.pread(self._descriptor, 2 * _FIELD_BYTES, 0)

    def disown(self) -> None:
        """Give up the lock in a forked child of the owner. A flock belongs to the open file, which parent and child share.

        Without this, a standby would wait for the children of a dead owner. The child closes the file without unlocking it,
        because an unlock would free the parent's lock too.
        """
        self.release()
        self._on_fork()


def call_in_forks(method: Callable[[], None]) -> None:
    """Call the method in each forked child of this process, as long as its object exists."""
    reference = weakref.WeakMethod(method)  # Python never forgets the function of `register_at_fork`

    def call() -> None:
        found = reference()
        if found is not None:
            found()

    os.register_at_fork(after_in_child=call)


def take_ownership(folder: DataFolder, on_fork: Callable[[], None], pause: Callable[[float], object]) -> OwnerLock:
    """Lock this folder, and return the lock. A forked child does not own the folder, and calls `on_fork`.

    Raises `FolderInUseError` with the owner's process id, `UnsafeFolderError` if locks have no effect, and `UnusableFileError`
    if the file cannot be opened. `pause` waits for some seconds between two attempts, because a process that only reads the
    owner can hold the lock for a moment.
    """
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(folder.lock, _FLAGS, 0o600)
        except OSError as error:
            raise UnusableFileError(folder.lock, str(error.strerror)) from error
        if not _locked(descriptor, pause):
            owner = _owner(descriptor)
            os.close(descriptor)
            raise FolderInUseError(folder.path, owner)
        found = os.fstat(descriptor)
        if file_identity(folder.lock) == (found.st_dev, found.st_ino):
            break
        os.close(descriptor)  # the file was deleted before the lock, so this lock protects nothing
    else:
        raise UnsafeFolderError(folder.path, f"{folder.lock.name} is being deleted by others", "Find the process that does it")
    if not _keeps_out(folder.lock):
        os.close(descriptor)
        raise UnsafeFolderError(folder.path, "locks do not work on this file system", "Use a local disk")
    with contextlib.suppress(OSError):  # a full disk: the file does not name the owner, but the lock works
        os.pwrite(descriptor, f"{os.getpid():<{_FIELD_BYTES - 1}}\n".encode(), 0)
    return OwnerLock(folder.lock, descriptor, on_fork)


def _locked(descriptor: int, pause: Callable[[float], object]) -> bool:
    for look in range(_LOOKS):
        if look:
            pause(_LOOK_S)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _keeps_out(path: Path) -> bool:
    """Return whether locks work: flock belongs to an open file, so a second open file must not get the lock."""
    second = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(second)


def _owner(descriptor: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(os.pread(descriptor, _FIELD_BYTES, 0))
    return None  # the owner has just taken the lock, and has not written its process id yet
