"""How long to wait before a process that ended is started again: longer each time, anew after one that ran for long.

Knows numbers and an event; starts nothing.
"""

from typing import Final

import anyio

from mqflow.cli.text.terminal import note
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Restarts",)

_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 30.0
_LONG_ENOUGH_S: Final = 60.0
"""A process that ran so long did not die of what kills it at its start: the delay begins anew."""


class Restarts:
    """Of one process that is to run all the time."""

    def __init__(self) -> None:
        self._delay_s = _FIRST_DELAY_S
        self._started = 0.0

    def started(self) -> None:
        """Note that it is started now."""
        self._started = SYSTEM_CLOCK.monotonic()

    async def pause(self, said: str, stopping: anyio.Event) -> None:
        """Say what happened, and wait the delay that is due, or until `stopping`."""
        if SYSTEM_CLOCK.monotonic() - self._started >= _LONG_ENOUGH_S:
            self._delay_s = _FIRST_DELAY_S
        note(f"{said} in {self._delay_s:g} s.")
        with anyio.move_on_after(self._delay_s):
            await stopping.wait()
        self._delay_s = min(2 * self._delay_s, _LONGEST_DELAY_S)
