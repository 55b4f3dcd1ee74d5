"""The hooks that show the state of `mqflow run`: a line while it reconnects, and a file that exists while it is ready."""

import math
from errno import EEXIST
from pathlib import Path
from typing import Final, TextIO

import anyio

from mqflow.events import Event, ReadinessChanged, Reconnected, Reconnecting
from mqflow.mqi.reason_codes import reason_name
from mqflow.world import Clock

__all__ = ("ReadyFile", "ReconnectLine")

_CLEAR: Final = "\r\x1b[2K"
_TICK_S: Final = 1.0


class ReadyFile:
    """A file for the probe of an orchestrator. The file exists while the application gets messages."""

    wants: Final = (ReadinessChanged,)

    def __init__(self, path: Path) -> None:
        """Remove the file if a killed process has left it.

        Raises `OSError` if the path cannot be written, or if the file is not empty: then it is another file.
        """
        self._path: Final = path
        path.touch()
        if path.is_file() and path.stat().st_size:
            raise OSError(EEXIST, "the file is not empty, so it is not a ready file", str(path))
        path.unlink()

    def __call__(self, event: Event) -> None:
        """Create or remove the file, as the event says."""
        if isinstance(event, ReadinessChanged):
            if event.ready:
                self._path.touch()
            else:
                self._path.unlink(missing_ok=True)


class ReconnectLine:
    """A line on a terminal, below all other lines. It is updated each second, and removed when the connection is back."""

    wants: Final = (Reconnecting, Reconnected)

    def __init__(self, terminal: TextIO, clock: Clock) -> None:
        self._terminal: Final = terminal
        self._clock: Final = clock
        self._shown = ""
        #: The last event of this outage, and the time when it came, in monotonic seconds.
        self._outage: tuple[Reconnecting, float] | None = None
        self._changed = anyio.Event()

    def __call__(self, event: Event) -> None:
        """Write or remove the line, as the event says."""
        match event:
            case Reconnecting():
                self._outage = (event, self._clock.monotonic())
                self.tick()
                self._changed.set()
            case Reconnected() if self._outage is None or self._outage[0].queue_manager == event.queue_manager:
                self.clear()
            case _:
                return

    def tick(self) -> None:
        """Write the line again if its text has changed."""
        if self._outage is None:
            return
        shown = _row(self._outage[0], self._clock.monotonic() - self._outage[1])
        if shown != self._shown:
            self._shown = shown
            self._write(_CLEAR + shown)

    async def keep_current(self) -> None:
        """Update the line each second during an outage, until this task is cancelled."""
        while True:
            self._changed = anyio.Event()
            if self._outage is None:
                await self._changed.wait()
            await anyio.sleep(_TICK_S)
            self.tick()

    def clear(self) -> None:
        """Remove the line, because the connection is back or the application ends."""
        self._outage = None
        if self._shown:
            self._shown = ""
            self._write(_CLEAR)

    def write(self, text: str) -> None:
        """Write other lines to the terminal, above this line. So this object can be the stream of a log handler."""
        self._write(f"{_CLEAR}{text}{self._shown}" if self._shown else text)

    def flush(self) -> None:
        """Flush the terminal."""
        self._terminal.flush()

    def _write(self, text: str) -> None:
        self._terminal.write(text)
        self._terminal.flush()


def _row(event: Reconnecting, since_s: float) -> str:
    """Return the text of the line `since_s` seconds after the event."""
    away = f", {_duration(event.lost_for_s + since_s)} away" if event.attempt else ""
    what = f"attempt {event.attempt} failed" if event.attempt else "the connection is lost"
    left_s = math.ceil(event.next_in_s - since_s)
    then = (f"; next in {_duration(left_s)}" if left_s > 0 else "; trying") if event.next_in_s else ""
    return f"{event.queue_manager}: reconnecting{away}; {what}, {reason_name(event.reason)}{then}"


def _duration(seconds: float) -> str:
    """Return a time span in words: "8 s", "4 min", "2 h 5 min"."""
    minutes, hours = int(seconds) // 60, int(seconds) // 3_600
    if not minutes:
        return f"{seconds:.0f} s"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
