"""Whether everything an application wants open is open: what a load balancer or an orchestrator asks.

Whoever needs an object says when it is missing and when it is there; every change of the answer is told. Decides nothing else.
"""

from typing import Final

import anyio

from mqflow.events import ReadinessChanged
from mqflow.runtime.hooks import Broadcast

__all__ = ("Readiness",)


class Readiness:
    """Of one application. Not ready before it has started, nor once it stops."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast: Final = broadcast
        self._missing: dict[object, str] = {}
        self._started = False
        self._event = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether everything is open."""
        return self._event.is_set()

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not open, each name once."""
        return tuple(dict.fromkeys(self._missing.values()))

    async def wait(self) -> None:
        """Return when everything is open."""
        while not self._event.is_set():
            await self._event.wait()

    def started(self) -> None:
        """Note that everything there is to open was asked for."""
        self._started = True
        self._look()

    def stopped(self) -> None:
        """Note that the application stops: it takes no more work."""
        self._started = False
        self._look()

    def lacks(self, key: object, name: str) -> None:
        """Note that somebody does without this object."""
        self._missing[key] = name
        self._look()

    def has(self, key: object) -> None:
        """Note that somebody has what it needs, or needs it no more."""
        self._missing.pop(key, None)
        self._look()

    def _look(self) -> None:
        ready = self._started and not self._missing
        if ready == self._event.is_set():
            return
        if ready:
            self._event.set()
        else:
            self._event = anyio.Event()
        self._broadcast(ReadinessChanged(ready=ready, missing=self.missing))
