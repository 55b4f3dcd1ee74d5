"""Gives sessions, and gives them back after an outage: one gate for all, the ladder of delays, a generation for every return.

Knows which reasons mean "try again" from `policy.reconnection`; knows nothing of listeners. What was open is opened again
by its owner, who is told by a new generation that every handle and every cached attribute of the old one is dead.
"""

from typing import Final

import anyio

from mqflow.ambient import Clock, Random, Runner
from mqflow.events import Reconnected, Reconnecting
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy import reconnection
from mqflow.policy.delays import Ladder, next_delay_s
from mqflow.runtime.broadcast import Broadcast
from mqflow.runtime.session import Session, open_session
from mqflow.verbs import InlineQueueManager, QueueManager

__all__ = ("Supervisor",)


class Supervisor:
    """Connects, for everybody, one at a time."""

    def __init__(
        self,
        queue_manager: QueueManager,
        *,
        broadcast: Broadcast,
        clock: Clock,
        random: Random,
        runner: Runner,
        name: str = "mqflow",
        delays: Ladder = reconnection.LADDER,
        limit_s: float | None = None,
    ) -> None:
        """Take a queue manager, and how long to wait for it: the ladder goes on for ever, or until `limit_s` after the loss."""
        self.queue_manager: Final = queue_manager
        self._broadcast = broadcast
        self._clock = clock
        self._random = random
        self._runner = runner
        self._name = name
        self._delays = delays
        self._limit_s = limit_s
        self._gate = anyio.Lock()
        self._lost_at: float | None = None
        self._reached = False
        self._stopping = anyio.Event()
        #: Counts the outages that ended; cached attributes belong to one generation.
        self.generation = 0

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager that sessions are connected to."""
        return self.queue_manager.name

    async def connect(self, user: str = "") -> Session:
        """Return a new session; `user` is whose, where it is not the application's own.

        During an outage everybody waits here, and one of them walks the ladder.

        Raises `MQIError` when nothing was ever reached, when the reason is one that no retry can change, when an embedded queue
        manager has stopped for good, 2556 when the time limit is over, and 2202 when the application stops meanwhile.
        """
        async with self._gate:
            if self._lost_at is None:
                try:
                    session = await self._connect_once(user)
                except MQIError as error:
                    # Reached before, so this is an outage like any other: another one began before this caller was back.
                    if not self._reached or reconnection.classify(int(error.reason)) is not reconnection.Class.RECONNECT:
                        raise
                    self.lost(error)
                else:
                    self._reached = True
                    return session
            return await self._reconnect(self._clock.monotonic() if self._lost_at is None else self._lost_at, user)

    def lost(self, error: MQIError) -> None:
        """Note that a connection broke: the next `connect` is a reconnect."""
        if self._lost_at is None:
            self._lost_at = self._clock.monotonic()
            self._broadcast(
                Reconnecting(queue_manager=self.queue_manager_name, attempt=0, reason=int(error.reason), delay_s=0.0)
            )

    def stop(self) -> None:
        """Wait for no queue manager any more: who waits for one is told 2202."""
        self._stopping.set()

    @property
    def _gone_for_good(self) -> bool:
        return isinstance(self.queue_manager, InlineQueueManager) and self.queue_manager.stopped

    async def _pause(self, delay_s: float) -> None:
        with anyio.move_on_after(delay_s):
            await self._stopping.wait()
            said = "The application is stopping, and waits for no queue manager any more"
            raise error_for(Reason.CONNECTION_QUIESCING, "MQCONNX", queue_manager=self.queue_manager_name, detail=said)

    def _next_delay_s(self, attempt: int, lost_at: float) -> float:
        lost_for_s = self._clock.monotonic() - lost_at
        random = self._random.random()
        delay_s = next_delay_s(attempt, random, ladder=self._delays, lost_for_s=lost_for_s, limit_s=self._limit_s)
        if delay_s is None:
            said = f"The connection was lost {lost_for_s:.0f} s ago, and the limit for getting it back is {self._limit_s:g} s"
            raise error_for(Reason.RECONNECT_TIMED_OUT, "MQCONNX", queue_manager=self.queue_manager_name, detail=said)
        return delay_s

    async def _connect_once(self, user: str) -> Session:
        return await open_session(self.queue_manager, self._runner, self._name, user)

    async def _reconnect(self, lost_at: float, user: str) -> Session:
        attempt = 0
        while True:
            attempt += 1
            delay_s = self._next_delay_s(attempt, lost_at)
            if not self._gone_for_good:
                await self._pause(delay_s)
            try:
                session = await self._connect_once(user)
            except MQIError as error:
                if self._gone_for_good or reconnection.classify(int(error.reason)) is not reconnection.Class.RECONNECT:
                    raise
                self._broadcast(
                    Reconnecting(
                        queue_manager=self.queue_manager_name, attempt=attempt, reason=int(error.reason), delay_s=delay_s
                    )
                )
                continue
            self._lost_at = None
            self.generation += 1
            downtime_ms = (self._clock.monotonic() - lost_at) * 1_000
            self._broadcast(
                Reconnected(
                    queue_manager=self.queue_manager_name,
                    generation=self.generation,
                    objects=(),
                    attempts=attempt,
                    downtime_ms=downtime_ms,
                )
            )
            return session
