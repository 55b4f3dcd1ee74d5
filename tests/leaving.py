"""A long run that is ended from outside leaves no process: neither by SIGTERM nor by Ctrl-C, nor, on Linux, by SIGKILL."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

__all__ = ("die_with_parent", "end_by_exception", "popen_with_parent")

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def end_by_exception() -> None:
    """Let SIGTERM end this process as Ctrl-C does: by an exception, so that every `finally` cleans up."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # cleaning up is not begun twice
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this forked child when its parent ends; SIGTERM has its default effect in the child."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before that
            os._exit(1)


def popen_with_parent() -> "Callable[..., subprocess.Popen[Any]]":
    """Return a function like `subprocess.Popen`, whose processes end with this one, also in a session of their own.

    Call that function in the main thread: the kernel ends the processes when the thread that started them ends.
    """
    return partial(subprocess.Popen, preexec_fn=partial(die_with_parent, os.getpid()))
