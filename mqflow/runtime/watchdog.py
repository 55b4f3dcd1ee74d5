"""Notices, from a thread of its own, that the event loop does not turn, and writes down where it stands.

A handler that blocks the loop blocks everything that could tell about it from inside. Knows the loop's thread and a clock,
no handler and no session.
"""

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from mqflow.runtime.stack import stack_of
from mqflow.world import Clock, Runner

__all__ = ("BLOCKED_AFTER_S", "Watchdog")

BLOCKED_AFTER_S: Final = 5.0
_BEAT_S: Final = 1.0
_logger: Final = logging.getLogger("mqflow")


class Watchdog:
    """Watches the event loop it was made on."""

    def __init__(self, clock: Clock, *, blocked_after_s: float = BLOCKED_AFTER_S) -> None:
        self._clock: Final = clock
        self._blocked_after_s: Final = blocked_after_s
        self._thread: Final = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._told = False
        self._ended = threading.Event()

    @asynccontextmanager
    async def watching(self, runner: Runner) -> AsyncIterator[None]:
        """Watch inside."""
        runner.start(self._watch, "mqflow watchdog")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._beat)
                yield
                group.cancel_scope.cancel()
        finally:
            self._ended.set()

    def turned(self) -> None:
        """Note that the loop turns."""
        self._beat_at = self._clock.monotonic()
        self._told = False

    def check(self) -> str | None:
        """Return the stack of the loop's thread where it has not turned for too long; once for each time."""
        blocked_s = self._clock.monotonic() - self._beat_at
        if blocked_s < self._blocked_after_s or self._told:
            return None
        self._told = True
        return f"The event loop has not turned for {blocked_s:.0f} s; a handler blocks it here:\n{stack_of(self._thread)}"

    async def _beat(self) -> None:
        while True:
            self.turned()
            await anyio.sleep(_BEAT_S)

    def _watch(self) -> None:
        while not self._ended.wait(_BEAT_S):
            blocked = self.check()
            if blocked is not None:
                _logger.error("%s", blocked)
