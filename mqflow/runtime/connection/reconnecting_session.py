"""A session that is there when it is asked for, over all outages: each connection takes over what the one before had open.

For who works now and then, and need not be back at the moment when a connection can be had again. Knows no message.
"""

from typing import Final

import anyio

from mqflow.mqi.errors import MQIError
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.in_delivery import in_delivery
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor

__all__ = ("ReconnectingSession",)


class ReconnectingSession:
    """Of one user, one task at a time."""

    def __init__(self, supervisor: Supervisor, owner: str) -> None:
        self._supervisor: Final = supervisor
        self._owner: Final = owner
        self._session: Session | None = None
        #: What the next one takes over.
        self._lost: Session | None = None

    async def get(self, *, of_now: bool = False, at_once: bool = False) -> Session:
        """Return the session; `of_now` where one from before the last outage shall not be used.

        Ask for `of_now` between units of work only, and `at_once` where another session is held meanwhile. Raises what
        `Supervisor.connect` raises, or with `at_once` what `connect_now` does; in the midst of a
        delivery it is asked for at once too, and without a pause: see `delivering`.
        """
        session = self._session
        if session is not None and of_now and session.generation != self._supervisor.generation:
            await self.let_go()
        if self._session is None:
            self._session = await self._connect(at_once=at_once)
            self._lost = None
        return self._session

    async def _connect(self, *, at_once: bool) -> Session:
        supervisor, owner, before = self._supervisor, self._owner, self._lost
        if at_once:
            return await supervisor.connect_now(owner=owner, before=before)
        if in_delivery(supervisor):
            return await supervisor.connect_now(owner=owner, before=before, pauses=False)
        return await supervisor.connect(owner=owner, before=before)

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager that it is connected to; empty where it is not."""
        return "" if self._session is None else self._session.connection.queue_manager_name

    async def lose(self, error: MQIError) -> bool:
        """Let go of the session where the error says that it is lost; return whether it does."""
        if classify(int(error.reason)) is not Class.RECONNECT:
            return False
        self._supervisor.lost(error, self._session)
        await self.let_go()
        return True

    async def close(self) -> None:
        """Let go of the session, and of what was open on it."""
        session, self._session, self._lost = self._session, None, None
        if session is not None:
            with anyio.CancelScope(shield=True):
                await session.close()

    async def let_go(self) -> None:
        """Let go of the session, if there is one; the next takes over what was open on it."""
        session = self._session
        if session is not None:
            await self.close()
            self._lost = session
            self._supervisor.release(session)  # another one is had when it is asked for: nobody waits for that
