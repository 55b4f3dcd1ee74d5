"""Says whether all objects that the application needs are open. A load balancer or an orchestrator asks for this.

A listener or a service reports when its object is missing and when its object is open. The hooks receive every change.
"""

from typing import Final

import anyio

from mqflow.events import ReadinessChanged
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.hooks import Broadcast

__all__ = ("Readiness",)


class Readiness:
    """The readiness of one application. An application is not ready before it has started, or while it stops.

    In an application with several queue managers, the application of each queue manager has its own part of the readiness. The
    whole application is ready when all parts are ready.
    """

    def __init__(self, broadcast: Broadcast, *, name: str = "", whole: "Readiness | None" = None) -> None:
        """Take the name of a part, and the readiness of the whole application. Only the whole application reports events."""
        self._broadcast: Final = broadcast
        self._name: Final = name
        self._whole: Final = whole
        self._missing: dict[object, str] = {}
        self._started = False
        self._stopped = False
        self._ready = False
        #: Set and replaced when the application becomes ready, or stops.
        self._changed = anyio.Event()
        if whole is not None:
            whole.lacks(self, name)

    @property
    def ready(self) -> bool:
        """True if the application runs and all its objects are open."""
        return self._ready

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the missing objects, each name once."""
        return tuple(dict.fromkeys(self._missing.values()))

    async def wait(self) -> None:
        """Wait until the application is ready. Raises `MQIError` 2202 if it stops."""
        while not self._ready:
            if self._stopped:
                detail = "The application stops, so it does not become ready"
                raise error_for(Reason.CONNECTION_QUIESCING, "The wait for readiness", detail=detail)
            await self._changed.wait()

    def started(self) -> None:
        """Record that every listener and service has tried to open its object. From now on the application can be ready."""
        self._started, self._stopped = True, False
        self._report_change()

    def stopped(self) -> None:
        """Record that the application stops, and is not ready any more."""
        self._started, self._stopped = False, True
        self._report_change()
        self._wake()

    def lacks(self, key: object, name: str) -> None:
        """Record that this object of the owner `key` is not open."""
        self._missing[key] = name
        self._report_change()

    def has(self, key: object) -> None:
        """Record that the object of the owner `key` is open, or that the owner no longer needs it."""
        self._missing.pop(key, None)
        self._report_change()

    def _report_change(self) -> None:
        ready = self._started and not self._missing
        if self._whole is not None:
            if ready:
                self._whole.has(self)
            else:
                self._whole.lacks(self, ": ".join(filter(None, (self._name, ", ".join(self.missing)))))
        if ready == self._ready:
            return
        self._ready = ready
        self._wake()
        if self._whole is None:
            self._broadcast(ReadinessChanged(ready=ready, missing=self.missing))

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
