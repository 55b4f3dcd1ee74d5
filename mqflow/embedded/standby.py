"""Who else is ready to own a folder: a standby waits for its lock, and says that it is there.

Knows locks and files; knows no queue manager.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqflow.embedded.folder import DataFolder

__all__ = ("owner_pid", "standby_pid", "standing_by")

_ATTEMPTS = 10
_MOMENT_S = 0.002
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def standing_by(folder: DataFolder) -> Iterator[bool]:
    """Say inside that this process stands by; gives False where another one does already."""
    descriptor = os.open(_path(folder), _FLAGS, 0o600)
    try:
        if not _locked(descriptor):
            yield False
            return
        os.pwrite(descriptor, f"{os.getpid():<19}\n".encode(), 0)
        yield True
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock it; False where another process has it and keeps it. Whoever only looks has it for a moment too."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            threading.Event().wait(_MOMENT_S)
        else:
            return True
    return False


def standby_pid(folder: DataFolder) -> int | None:
    """Return the process that stands by, None where none does."""
    return _holder(_path(folder))


def owner_pid(folder: DataFolder) -> int | None:
    """Return the process that owns the folder, None where none does."""
    return _holder(folder.lock)


def _path(folder: DataFolder) -> Path:
    return folder.path / "standby.lock"


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
