"""The gate of a listener with a rate limit or a circuit breaker. One worker at a time waits here for permission, then gets.

A worker passes the gate before its get. So no worker holds a message that it may not handle, and no message is backed out
because of the gate. `policy.rate_limit` and `policy.circuit_breaker` decide; this module waits.
"""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from mqflow.events import BreakerHalfOpened, Event, ListenerPaused, ListenerResumed
from mqflow.policy import circuit_breaker, rate_limit
from mqflow.policy.circuit_breaker import CLOSED, HALF_OPEN, BreakerState, CircuitBreaker, Closed, HalfOpen, Open
from mqflow.policy.poison.disposition import Failed, Outcome
from mqflow.policy.rate_limit import RateLimit
from mqflow.world import Clock

__all__ = ("Gate", "Pass")


class Pass:
    """The permission for a worker to handle one unit of work."""

    def __init__(self, *, is_trial: bool) -> None:
        #: True if this unit is the trial of the circuit breaker, which waits for its outcome.
        self.is_trial = is_trial


class Gate:
    """Lets the workers of one listener get messages, one worker after the other."""

    def __init__(
        self,
        limit: RateLimit | None,
        breaker: CircuitBreaker | None,
        *,
        queue: str,
        listener: str,
        clock: Clock,
        notify: Callable[[Event], None],
    ) -> None:
        self._limit: Final = limit
        self._breaker: Final = breaker
        self._queue: Final = queue
        self._listener: Final = listener
        self._clock: Final = clock
        self._notify: Final = notify
        self._turn: Final = anyio.Lock()
        #: The state of the rate limit.
        self._due_at = -math.inf
        self._state: BreakerState = CLOSED
        #: Why the breaker is open, or lets only one message through; empty while it is closed.
        self.why_open: str = ""
        #: Set and replaced when the state of the breaker changes, or when the listener stops.
        self._changed = anyio.Event()
        self._is_stopping = False

    def stop(self) -> None:
        """End all waits at the gate."""
        self._is_stopping = True
        self._changed.set()

    def wake(self) -> None:
        """Let a worker that waits for its turn check again whether it still wants the turn."""
        self._changed.set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def turn(self, most: int, wanted: Callable[[], bool] = lambda: True) -> AsyncIterator[int]:
        """Wait until this worker may get messages. Yields the largest number of messages it may get, up to `most`.

        Other workers wait until the block ends. The wait also ends when the listener stops, or when `wanted` returns false. The
        worker must get nothing then.
        """
        async with self._turn:
            await self._permission(wanted)
            if not isinstance(self._state, Closed):
                most = 1
            if self._limit is not None:
                most = min(most, rate_limit.available(self._limit, self._due_at, self._clock.monotonic()))
            yield max(1, most)

    async def passed(self, count: int, message_id: bytes, wanted: Callable[[], bool] = lambda: True) -> Pass | None:
        """Record that the worker inside `turn` has got `count` messages. Returns the permission to handle them.

        If the breaker has opened while the worker waited for a message, the worker waits here. It keeps the message. If the
        listener stops meanwhile, or if `wanted` returns false, the result is None: the worker must back the message out.
        """
        await self._permission(wanted)
        if circuit_breaker.wait_s(self._state, self._clock.monotonic()) > 0:
            return None
        self.took(count)
        if not isinstance(self._state, Open):
            return Pass(is_trial=False)
        self._state = HALF_OPEN
        self._notify(BreakerHalfOpened(queue=self._queue, listener=self._listener, message_id=message_id))
        return Pass(is_trial=True)

    def took(self, count: int) -> None:
        """Record that a worker has got `count` messages: further messages of a group are got without a turn."""
        if self._limit is not None:
            self._due_at = rate_limit.taken(self._limit, self._due_at, self._clock.monotonic(), count)

    def ended(self, permission: Pass, outcome: Outcome | None) -> None:
        """Record the outcome of a handling; None if the unit of work ended without one. Then a trial is repeated."""
        breaker, before = self._breaker, self._state
        if breaker is None or (outcome is None and not permission.is_trial):
            return
        state = circuit_breaker.after(breaker, before, outcome, self._clock.monotonic(), is_trial=permission.is_trial)
        permission.is_trial = False
        self._state = state
        if type(state) is type(before):
            return
        self.wake()
        if isinstance(state, Closed):
            self.why_open = ""
            self._notify(ListenerResumed(queue=self._queue, listener=self._listener))
        elif isinstance(outcome, Failed) and not outcome.final:
            self._report_open(breaker, before, outcome)

    def _report_open(self, breaker: CircuitBreaker, before: BreakerState, outcome: Failed) -> None:
        because = f"{outcome.error}: {outcome.text}" if outcome.text else outcome.error
        count = "the message that was let through has" if isinstance(before, HalfOpen) else f"{breaker.failures} in a row have"
        self.why_open = f"the circuit breaker is open: {count} failed, the last with {because}"
        self._notify(ListenerPaused(queue=self._queue, listener=self._listener, why=self.why_open, delay_s=breaker.open_s))

    async def _permission(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Wait until the listener may get a message, or until it stops, or until `wanted` returns false."""
        while not self._is_stopping and wanted() and (wait_s := self._wait_s()) > 0:
            changed = self._changed
            with anyio.move_on_after(wait_s):
                await changed.wait()

    def _wait_s(self) -> float:
        now = self._clock.monotonic()
        limited_s = 0.0 if self._limit is None else rate_limit.wait_s(self._limit, self._due_at, now)
        return max(limited_s, circuit_breaker.wait_s(self._state, now))
