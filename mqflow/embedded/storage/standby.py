"""Standby processes of a data folder. Each waits until it is the first standby, and then for the owner's lock.

The system grants the lock when its holder releases it or dies, so no process polls. This module knows locks and files, but no
queue manager.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from mqflow.embedded.storage.folder import DataFolder, UnsafeFolderError
from mqflow.embedded.storage.owner_lock import call_in_forks
from mqflow.world import Runner

__all__ = ("LockWait", "first_in_line", "owner_pid", "standby_pid", "until_free")

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockWait:
    """A lock that this process waits for or holds. It ends with `release`, with the process, or with a fork (in the child).

    A wait for a flock cannot be cancelled, so it has its own thread. A lock granted after `release` is released immediately.
    """

    def __init__(self, path: Path, runner: Runner, changed: Callable[[], None], *, signed: bool = False) -> None:
        self._descriptor = os.open(path, _FLAGS, 0o600)
        self._folder = path.parent
        self._changed = changed
        self._signed = signed
        self._guard = threading.Lock()
        self._wanted = True
        self._held = False
        self._failure: UnsafeFolderError | None = None
        call_in_forks(self.disown)
        runner.start(self._wait, f"mqflow-standby-{path.parent.name}")

    @property
    def held(self) -> bool:
        """True if this process holds the lock. Raises `UnsafeFolderError` if the file system cannot wait for a lock."""
        if self._failure is not None:
            raise self._failure
        return self._held

    def release(self) -> None:
        """Release the lock now, or when the system grants it."""
        with self._guard:
            self._wanted = False
            if self._held:
                self._sign("")  # the next holder gets the lock before it has written its own process id
                self._let_go()

    def disown(self) -> None:
        """Give up the lock in a forked child. The child only closes the file: an unlock would free the parent's lock too."""
        self._guard = threading.Lock()
        self._wanted = False
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError as error:
            self._failure = UnsafeFolderError(self._folder, f"it cannot wait for a lock: {error.strerror}", "Use a local disk")
        self._comes()
        self._changed()

    def _comes(self) -> None:
        with self._guard:
            self._held = self._failure is None
            if not self._wanted:
                self._let_go()
                return
            self._sign(str(os.getpid()))

    def _sign(self, name: str) -> None:
        if self._signed:
            with contextlib.suppress(OSError):  # a full disk: the file does not name the standby
                os.pwrite(self._descriptor, f"{name:<19}\n".encode(), 0)

    def _let_go(self) -> None:
        self._held = False
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def first_in_line(folder: DataFolder, runner: Runner, changed: Callable[[], None]) -> LockWait:
    """Begin to wait until this process is the first standby. Then another thread calls `changed`."""
    return LockWait(_path(folder), runner, changed, signed=True)


def until_free(folder: DataFolder, runner: Runner, changed: Callable[[], None]) -> LockWait:
    """Begin to wait until the owner has released the lock. Then another thread calls `changed`.

    The caller must then release the lock and open the store.
    """
    return LockWait(folder.lock, runner, changed)


def standby_pid(folder: DataFolder) -> int | None:
    """Return the process id of the first standby, or None if there is no standby."""
    return _holder(_path(folder))


def owner_pid(folder: DataFolder) -> int | None:
    """Return the process id of the owner, or None if the folder has no owner."""
    return _holder(folder.lock)


def _path(folder: DataFolder) -> Path:
    return folder.path / "standby.lock"


def _holder(path: Path) -> int | None:
    """Return the process id that the holder of the lock wrote into the file; 0 if none is there yet, None without a holder."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with contextlib.suppress(ValueError):
            return int(os.pread(descriptor, 20, 0))  # in the owner's file, the epoch can follow
        return 0  # the process has just taken the lock
    else:
        return None
    finally:
        os.close(descriptor)
