"""Processes forked from a process that has loaded all modules and opened nothing, and the history that all of them write.

A line is one system call, so a killed process leaves its lines. No process survives the test.
"""

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import anyio._backends._asyncio  # noqa: F401 - loaded once, here, and not in every process that is started

from tests.leaving import die_with_parent

__all__ = ("LOOK_S", "NeverError", "Stage")

LOOK_S: Final = 0.002
_SAYING_S: Final = 0.2
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class NeverError(Exception):
    """An expected event did not happen within the time limit."""


class Stage:
    """The processes, and the lines that they write."""

    def __init__(self, folder: Path, patience_s: float) -> None:
        self.folder = folder
        self.patience_s = patience_s
        self.data = folder / "data"
        self.history = os.open(folder / "history", os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        self.running: dict[int, str] = {}
        self._read_bytes = 0
        self._rest = b""

    def fork(self, who: str, act: Callable[[], None]) -> int:
        """Start a child that writes its actions into the history.

        A signal meanwhile has its effect afterwards. Python drops an exception that a handler raises inside a fork, and
        `kill_all` does not find a child that `running` does not have yet.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            code = 1
            try:
                die_with_parent(parent)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
                os.setpgid(0, 0)
                os.dup2(self.history, 1)
                faulthandler.register(signal.SIGUSR1)
                act()
                code = 0
            except BaseException:  # noqa: BLE001 - printed here, because the process ends here
                traceback.print_exc()
            finally:
                os._exit(code)
        self.running[pid] = who
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        return pid

    def heard(self) -> list[str]:
        """Return the new lines."""
        found = os.pread(self.history, 1 << 24, self._read_bytes)
        self._read_bytes += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        return [line.decode() for line in lines]

    def all_said(self) -> Iterator[str]:
        """Yield every line from the first on."""
        with (self.folder / "history").open() as history:
            yield from (line for line in history if not line.startswith("owner"))

    def end(self, pid: int, number: signal.Signals) -> None:
        """End a child and wait for it."""
        os.kill(pid, number)
        self.wait(pid, -number if number == signal.SIGKILL else 0)

    def wait(self, pid: int, code: int = 0) -> None:
        """Wait until a child ends. Its exit code, or its signal, must be `code`."""
        until = time.monotonic() + self.patience_s
        while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > until:
                raise NeverError(f"{self.running[pid]} does not end")
            time.sleep(LOOK_S)
        who = self.running.pop(pid)
        if (found := os.waitstatus_to_exitcode(ended[1])) != code:
            raise NeverError(f"{who} should have ended with {code}, and ended with {found}")

    def say_where(self) -> None:
        """Make each process write the stack of each thread to stderr, after an expected event did not happen."""
        for pid, who in self.running.items():
            sys.stderr.write(f"--- {who} {pid}\n")
            sys.stderr.flush()
            os.kill(pid, signal.SIGUSR1)
            time.sleep(_SAYING_S)

    def kill_all(self) -> None:
        """Kill all processes, and the processes that they have started."""
        for pid in tuple(self.running):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:  # the process has no group of its own yet
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.running.clear()
