"""A line on the terminal while a queue manager loads its messages, so that a long start does not look as if it hangs.

A million messages take some seconds. If the start is quick, no line is shown. In a log there is no such line.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from mqflow.cli.text.terminal import in_foreground
from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.sqlite.folder_summary import messages_in
from mqflow.world import SYSTEM_CLOCK, THREADS

__all__ = ("LoadingLine", "loading_line")

_CLEAR: Final = "\r\x1b[2K"
_QUIET_S: Final = 1.0
_TICK_S: Final = 0.5


class LoadingLine:
    """The line for one start. A thread of its own writes it."""

    def __init__(self, name: str, folder: DataFolder, terminal: TextIO, *, quiet_s: float = _QUIET_S) -> None:
        self._name: Final = name
        self._folder: Final = folder
        self._terminal: Final = terminal
        self._quiet_s: Final = quiet_s
        self._finished: Final = threading.Event()
        self._started_at: Final = SYSTEM_CLOCK.monotonic()
        self._thread: Final = THREADS.start(self._run, "mqflow-loading")

    def finish(self) -> None:
        """Remove the line, because the load has ended or failed. A second call does nothing."""
        self._finished.set()
        self._thread.join()

    def _run(self) -> None:
        if self._finished.wait(self._quiet_s) or not (count := messages_in(self._folder)):
            return
        while not self._finished.is_set():
            took_s = SYSTEM_CLOCK.monotonic() - self._started_at
            self._write(f"{_CLEAR}{self._name}: loading about {count:,} messages, {took_s:.0f} s")
            self._finished.wait(_TICK_S)
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


@contextmanager
def loading_line(name: str, folder: DataFolder) -> Iterator[None]:
    """Show the line if the block takes long, and if this process owns the terminal."""
    if not in_foreground(sys.stderr):
        yield
        return
    line = LoadingLine(name, folder, sys.stderr)
    try:
        yield
    finally:
        line.finish()
