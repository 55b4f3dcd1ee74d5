"""What `mqflow run` shows of its state: a line while it reconnects, and a file that is there while the application is ready.

Hooks; they know events and where to write.
"""

import math
import os
from pathlib import Path
from typing import Final, TextIO

import anyio

from mqflow.events import Event, ReadinessChanged, Reconnected, Reconnecting
from mqflow.mqi.reason_codes import reason_name
from mqflow.world import Clock

__all__ = ("ReadyFile", "ReconnectLine", "in_foreground")

_CLEAR: Final = "\r\x1b[2K"
_TICK_S: Final = 1.0


class ReadyFile:
    """A file that exists while the application takes work: for an orchestrator's probe."""

    wants: Final = (ReadinessChanged,)

    def __init__(self, path: Path) -> None:
        """Take the path; what a process that was killed has left there goes. Raises `OSError` where it cannot be written."""
        self._path: Final = path
        path.touch()
        path.unlink()

    def __call__(self, event: Event) -> None:
        """Make the file, or take it away."""
        if isinstance(event, ReadinessChanged):
            if event.ready:
                self._path.touch()
            else:
                self._path.unlink(missing_ok=True)


class ReconnectLine:
    """One line of a terminal, written anew each second, gone when the connection is back; nothing else is on its row."""

    wants: Final = (Reconnecting, Reconnected)

    def __init__(self, terminal: TextIO, clock: Clock) -> None:
        self._terminal: Final = terminal
        self._clock: Final = clock
        self._shown = ""
        #: What it tells of, and since when, in monotonic seconds.
        self._told: tuple[Reconnecting, float] | None = None
        self._changed = anyio.Event()

    def __call__(self, event: Event) -> None:
        """Write it, or take it away."""
        match event:
            case Reconnecting():
                self._told = (event, self._clock.monotonic())
                self.tick()
                self._changed.set()
            case Reconnected():
                self.clear()
            case _:
                return

    def tick(self) -> None:
        """Write it anew where it says something else by now."""
        if self._told is None:
            return
        shown = _row(self._told[0], self._clock.monotonic() - self._told[1])
        if shown != self._shown:
            self._shown = shown
            self._write(_CLEAR + shown)

    async def ticking(self) -> None:
        """Let it tick, until cancelled; while nothing is lost it waits for that."""
        while True:
            self._changed = anyio.Event()
            if self._told is None:
                await self._changed.wait()
            await anyio.sleep(_TICK_S)
            self.tick()

    def clear(self) -> None:
        """Leave nothing of it: the connection is back, or the application ends without."""
        self._told = None
        if self._shown:
            self._shown = ""
            self._write(_CLEAR)

    def write(self, text: str) -> None:
        """Write lines of something else to the terminal, above this one: a stream for a log handler."""
        self._write(f"{_CLEAR}{text}{self._shown}" if self._shown else text)

    def flush(self) -> None:
        """Have it shown."""
        self._terminal.flush()

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


def _row(event: Reconnecting, since_s: float) -> str:
    """Return what is to be said that long after the event."""
    away = f", {_duration(event.lost_for_s + since_s)} away" if event.attempt else ""
    what = f"attempt {event.attempt} failed" if event.attempt else "the connection is lost"
    left_s = math.ceil(event.next_in_s - since_s)
    then = (f"; next in {_duration(left_s)}" if left_s > 0 else "; trying") if event.next_in_s else ""
    return f"{event.queue_manager}: reconnecting{away}; {what}, {reason_name(event.reason)}{then}"


def _duration(seconds: float) -> str:
    """Return it as a person says it: "8 s", "4 min", "2 h 5 min"."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3_600
    if not minutes:
        return f"{seconds:.0f} s"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def in_foreground(terminal: TextIO) -> bool:
    """Return whether this process has the terminal for itself; one of several workers has not."""
    try:
        return terminal.isatty() and os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False
