"""Who else is ready to own a folder: who stands by waits for its turn, and then for the owner's lock.

A lock that is waited for is given in the moment its holder lets go of it or dies: nobody looks again and again. Knows locks and
files; knows no queue manager.
"""

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Self

from mqflow.embedded.storage.folder import DataFolder, UnsafeFolderError
from mqflow.world import Runner

__all__ = ("LockWait", "first_in_line", "owner_pid", "standby_pid", "until_free")

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LockWait:
    """A lock on a file, being waited for or held, until `release`, the end of the process, or a fork (in the child).

    A wait for flock cannot be called off, so it has a thread of its own, and what comes after `release` is let go at once.
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
        os.register_at_fork(after_in_child=partial(_disown, weakref.ref(self)))  # cannot be taken back: holds nothing
        runner.start(self._wait, f"mqflow-standby-{path.parent.name}")

    @property
    def held(self) -> bool:
        """Whether it is this process's. Raises `UnsafeFolderError` where the file system cannot wait for it."""
        if self._failure is not None:
            raise self._failure
        return self._held

    def release(self) -> None:
        """Let go of it, now or as soon as it comes."""
        with self._guard:
            self._wanted = False
            if self._held:
                self._let_go()

    def disown(self) -> None:
        """Hold nothing, as a forked child, which shares the lock: closed, not unlocked, which would free the parent's."""
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
            self._failure = UnsafeFolderError(
                self._folder, f"a lock cannot be waited for: {error.strerror}", "Use a local disk"
            )
        self._comes()
        self._changed()

    def _comes(self) -> None:
        with self._guard:
            self._held = self._failure is None
            if not self._wanted:
                self._let_go()
                return
            if self._signed:
                with contextlib.suppress(OSError):  # a full disk: nobody will be told who it is
                    os.pwrite(self._descriptor, f"{os.getpid():<19}\n".encode(), 0)

    def _let_go(self) -> None:
        self._held = False
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def first_in_line(folder: DataFolder, runner: Runner, changed: Callable[[], None]) -> LockWait:
    """Wait to be the one that stands by; `changed` is called, on another thread, once it is."""
    return LockWait(_path(folder), runner, changed, signed=True)


def until_free(folder: DataFolder, runner: Runner, changed: Callable[[], None]) -> LockWait:
    """Wait for the owner to be gone; `changed` is called, on another thread, once it is. Release it, and open the store."""
    return LockWait(folder.lock, runner, changed)


def standby_pid(folder: DataFolder) -> int | None:
    """Return the process that stands by, the first where there are several, and None where none does."""
    return _holder(_path(folder))


def owner_pid(folder: DataFolder) -> int | None:
    """Return the process that owns the folder, None where none does."""
    return _holder(folder.lock)


def _path(folder: DataFolder) -> Path:
    return folder.path / "standby.lock"


def _disown(wait: "weakref.ref[LockWait]") -> None:
    waiting = wait()
    if waiting is not None:
        waiting.disown()


def _holder(path: Path) -> int | None:
    """Return the process that holds the lock on the file, as it says itself."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with contextlib.suppress(ValueError):
            return int(os.pread(descriptor, 20, 0))  # an owner's epoch may follow
        return 0  # it took the lock a moment ago
    else:
        return None
    finally:
        os.close(descriptor)
