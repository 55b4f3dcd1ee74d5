"""Whether all objects that an application needs are open: the question of a load balancer or an orchestrator.

A listener or a service notes when its object is missing and when it is open; the hooks receive every change. Decides nothing
else.
"""

from typing import Final

import anyio

from mqflow.events import ReadinessChanged
from mqflow.runtime.hooks import Broadcast

__all__ = ("Readiness",)


class Readiness:
    """The readiness of one application. It is not ready before it has started, or once it stops."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast: Final = broadcast
        self._missing: dict[object, str] = {}
        self._started = False
        self._event = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether all objects are open."""
        return self._event.is_set()

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the missing objects, each name once."""
        return tuple(dict.fromkeys(self._missing.values()))

    async def wait(self) -> None:
        """Return when all objects are open."""
        while not self._event.is_set():
            await self._event.wait()

    def started(self) -> None:
        """Note that every listener and service has tried its objects."""
        self._started = True
        self._report_change()

    def stopped(self) -> None:
        """Note that the application stops: it takes no more work."""
        self._started = False
        self._report_change()

    def lacks(self, key: object, name: str) -> None:
        """Note that the owner `key` lacks this object."""
        self._missing[key] = name
        self._report_change()

    def has(self, key: object) -> None:
        """Note that the owner `key` has its object, or needs it no more."""
        self._missing.pop(key, None)
        self._report_change()

    def _report_change(self) -> None:
        ready = self._started and not self._missing
        if ready == self._event.is_set():
            return
        if ready:
            self._event.set()
        else:
            self._event = anyio.Event()
        self._broadcast(ReadinessChanged(ready=ready, missing=self.missing))
