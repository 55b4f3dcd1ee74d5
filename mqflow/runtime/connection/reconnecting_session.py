"""A session that reconnects after each outage. Each new connection takes over the open objects of the last connection.

This session is for code that needs a session only from time to time, and need not have one immediately after an outage. The
module also knows whether a caller runs inside a delivery.
"""

from contextvars import ContextVar
from typing import Final, Protocol

from mqflow.mqi.errors import MQIError
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor

__all__ = ("HoldsUnitOfWork", "ReconnectingSession", "delivers", "in_delivery")


class HoldsUnitOfWork(Protocol):
    """The part of a worker of a listener that this module needs."""

    @property
    def under_way(self) -> bool:
        """True if the worker holds a unit of work now."""
        ...


_WORKER: Final[ContextVar[tuple[object, HoldsUnitOfWork] | None]] = ContextVar("mqflow_worker", default=None)


def delivers(application: object, worker: HoldsUnitOfWork) -> None:
    """Record that this task, and each task that it starts from now on, works for a delivery of this worker."""
    _WORKER.set((application, worker))


def in_delivery(application: object) -> bool:
    """Return whether the caller runs inside the unit of work of a delivery of this application."""
    current = _WORKER.get()
    return current is not None and current[0] is application and current[1].under_way


class ReconnectingSession:
    """The session of one owner. One task at a time uses it."""

    def __init__(self, supervisor: Supervisor, owner: str, *, waits: bool = True) -> None:
        """Take the name of the owner. If `waits` is false, or inside a delivery, no call waits for a connection."""
        self._supervisor: Final = supervisor
        self._waits: Final = waits
        self._owner: Final = owner
        self._session: Session | None = None
        #: The lost session. The next session takes over its open objects.
        self._lost: Session | None = None

    async def get(self, *, of_now: bool = False) -> Session:
        """Return the session. With `of_now`, replace a session that was connected before the last outage.

        Use `of_now` only between units of work. Inside a delivery, a new session is connected with `Supervisor.connect_now`,
        without a pause before the attempt; otherwise with `Supervisor.connect`. Raises the errors of these functions.
        """
        session = self._session
        if session is not None and of_now and session.generation != self._supervisor.generation:
            await self.let_go()
        if self._session is None:
            self._session = await self._connect()
            self._lost = None
        return self._session

    async def _connect(self) -> Session:
        supervisor, owner, before = self._supervisor, self._owner, self._lost
        if not self._waits or in_delivery(supervisor):
            return await supervisor.connect_now(owner=owner, before=before, pauses=False)
        return await supervisor.connect(owner=owner, before=before)

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager that the session is connected to; empty without a session."""
        return "" if self._session is None else self._session.connection.queue_manager_name

    async def lose(self, error: MQIError) -> bool:
        """If the error means a lost connection, close the session. Return whether the connection was lost."""
        if not needs_reconnect(error):
            return False
        self._supervisor.lost(error, self._session)
        await self.let_go()
        return True

    async def close(self) -> None:
        """Close the session, and forget its open objects: no later session takes them over."""
        session, self._session, self._lost = self._session, None, None
        if session is not None:
            await session.close()

    async def let_go(self) -> None:
        """Close the session if it is open. The next session takes over its open objects."""
        session = self._session
        if session is not None:
            await self.close()
            self._lost = session
            self._supervisor.release(session)  # a new session is connected only when it is used; the outage must not wait
