"""The lock that makes one process the owner of a data folder, and everybody else not.

An advisory `flock` on a file of its own. Knows nothing of what is in the folder.
"""

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mqflow.embedded.storage.folder import DataFolder, FolderInUseError, UnsafeFolderError, file_identity

__all__ = ("OwnerLock", "take_ownership")

_ATTEMPTS = 8
# Whoever only looks who the owner is holds the lock for that long: some microseconds, more on a busy machine.
_LOOKS = 20
_LOOK_S = 0.001
# The file says the owner's process id, and then its epoch.
_FIELD_BYTES = 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnerLock:
    """Ownership of a folder, from `take_ownership` until `release`, the end of the process, or a fork (in the child)."""

    def __init__(self, path: Path, descriptor: int, on_fork: Callable[[], None]) -> None:
        self._path = path
        self._descriptor = descriptor
        self._identity = file_identity(path)
        self._record = self._read()
        self._on_fork = on_fork
        os.register_at_fork(after_in_child=partial(_disown, weakref.ref(self)))  # cannot be taken back: holds nothing

    @property
    def held(self) -> bool:
        """Whether the lock file is still the one that was locked, and says nothing of a later owner.

        A later one can only be where the file system grants the lock twice: its epoch is another, whoever it is.
        """
        try:
            found = os.lstat(self._path)  # not Path.stat, which takes four times as long: this is once a commit
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity and self._descriptor >= 0 and self._read() == self._record

    def claim(self, epoch: int) -> None:
        """Say in the file which owner in the life of the folder this one is, for earlier ones to find."""
        with contextlib.suppress(OSError):  # a full disk
            os.pwrite(self._descriptor, f"{epoch:<{_FIELD_BYTES - 1}}\n".encode(), _FIELD_BYTES)
        self._record = self._read()

    def release(self) -> None:
        """Let another process own the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> bytes:
        return os.pread(self._descriptor, 2 * _FIELD_BYTES, 0)

    def disown(self) -> None:
        """Own nothing, as the forked child of an owner. flock belongs to the open file, which a child shares.

        Without this, a standby would wait for a dead owner's children. Closed, not unlocked: that would free the parent's lock.
        """
        self.release()
        self._on_fork()


def _a_moment() -> None:
    threading.Event().wait(_LOOK_S)


def take_ownership(folder: DataFolder, on_fork: Callable[[], None], *, pause: Callable[[], None] = _a_moment) -> OwnerLock:
    """Return the lock on this folder; `on_fork` is called in every forked child, which owns nothing.

    Raises `FolderInUseError` with the owner's process id, and `UnsafeFolderError` where locks keep nobody out. `pause` is
    between two attempts: the lock may be held for a moment by somebody who only looks who owns the folder.
    """
    for _ in range(_ATTEMPTS):
        descriptor = os.open(folder.lock, _FLAGS, 0o600)
        if not _locked(descriptor, pause):
            owner = _owner(descriptor)
            os.close(descriptor)
            raise FolderInUseError(folder.path, owner)
        if _same_file(descriptor, folder.lock):
            break
        os.close(descriptor)  # the file was deleted between open and lock: what was locked is nobody's
    else:
        raise UnsafeFolderError(folder.path, f"{folder.lock.name} is being deleted by others", "Find out who does it")
    if not _keeps_out(folder.lock):
        os.close(descriptor)
        raise UnsafeFolderError(folder.path, "locks do not work on this file system", "Use a local disk")
    with contextlib.suppress(OSError):  # a full disk: who holds it will not be said, and it is held all the same
        os.pwrite(descriptor, f"{os.getpid():<{_FIELD_BYTES - 1}}\n".encode(), 0)
    return OwnerLock(folder.lock, descriptor, on_fork)


def _locked(descriptor: int, pause: Callable[[], None]) -> bool:
    for look in range(_LOOKS):
        if look:
            pause()
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _same_file(descriptor: int, path: Path) -> bool:
    found = os.fstat(descriptor)
    return file_identity(path) == (found.st_dev, found.st_ino)


def _keeps_out(path: Path) -> bool:
    """Whether a second open file of ours is refused: flock belongs to the open file, so no second process is needed to see."""
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
    return None  # it was taken a moment ago and does not say yet by whom


def _disown(lock: "weakref.ref[OwnerLock]") -> None:
    held = lock()
    if held is not None:
        held.disown()
