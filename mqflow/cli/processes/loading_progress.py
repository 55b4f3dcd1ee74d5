"""A row of the terminal while a queue manager reads what it holds, so that nobody takes a long start for a hang.

A million messages take some seconds. In a log, and where it is quick, there is nothing of it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from mqflow.cli.applications.run_state import in_foreground
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.read_only import messages_in
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("ReadingRow", "while_reading")

_CLEAR: Final = "\r\x1b[2K"
_QUIET_S: Final = 1.0
_TICK_S: Final = 0.5


class ReadingRow:
    """Of one start."""

    def __init__(self, name: str, folder: DataFolder, terminal: TextIO, *, quiet_s: float = _QUIET_S) -> None:
        self._name: Final = name
        self._folder: Final = folder
        self._terminal: Final = terminal
        self._quiet_s: Final = quiet_s
        self._over: Final = threading.Event()
        self._began: Final = SYSTEM_CLOCK.monotonic()
        self._running: Final = THREADS.start(self._run, "mqflow-reading")

    def over(self) -> None:
        """Take the row away: everything is read, or cannot be. Twice is once."""
        self._over.set()
        self._running.join()

    def _run(self) -> None:
        if self._over.wait(self._quiet_s) or not (count := messages_in(self._folder)):
            return
        while not self._over.is_set():
            took_s = SYSTEM_CLOCK.monotonic() - self._began
            self._write(f"{_CLEAR}{self._name}: reading about {count:,} messages, {took_s:.0f} s")
            self._over.wait(_TICK_S)
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


@contextmanager
def while_reading(name: str, folder: DataFolder) -> Iterator[None]:
    """Show the row while the block takes long, on a terminal that this process has for itself."""
    if not in_foreground(sys.stderr):
        yield
        return
    row = ReadingRow(name, folder, sys.stderr)
    try:
        yield
    finally:
        row.over()
