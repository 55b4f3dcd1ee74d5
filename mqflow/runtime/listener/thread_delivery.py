"""Handles messages on the thread of the session, without the event loop, as long as no message fails.

The thread calls the plain handler, commits, and gets the next unit of work. It continues while the messages are delivered for
the first time and their handlers complete. In any other case it hands the unit back to the worker on the event loop. This
module makes no decision about messages. The thread records its work as `News`; the worker reports them as events, in order.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Any, Final, cast

import anyio
from msgspec import Struct

from mqflow.events import Delivered, Settled
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Completed, Outcome
from mqflow.runtime.connection import session_limits
from mqflow.runtime.connection.loop_call import OneShot
from mqflow.runtime.connection.session_limits import raise_if
from mqflow.runtime.connection.threaded_session import ThreadedSession
from mqflow.runtime.connection.worker_thread import WorkerThread
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.unit import Unit
from mqflow.verbs import Exchange, Got

__all__ = ("HandedBack", "News", "OnThread", "on_the_loop", "rest_of")

_NEWS_S: Final = 0.05
"""The seconds until the events of a busy thread are reported."""
_NEWS_S_MAX: Final = 1.0
#: The thread goes back to the event loop if more events wait: while the loop is blocked, they must not fill the memory.
_NEWS_MAX: Final = 2_000


class News(Struct, frozen=True):
    """The news that the thread begins to handle a unit, or has committed it."""

    unit: Unit
    is_committed: bool


class HandedBack(Struct, frozen=True):
    """The facts that the worker needs to continue after the thread has stopped handling messages."""

    #: The result of the last exchange. The messages that it got are in `unit`.
    exchange: Exchange = Exchange()
    #: The handled unit that `exchange` has committed, or tried to commit; None if a `News` has reported it.
    settled: Unit | None = None
    #: The open unit that the thread has not finished.
    unit: Unit | None = None


class OnThread:
    """Handles the units of one worker on the thread of its session."""

    def __init__(
        self,
        state: ListenerState,
        session: ThreadedSession,
        number: int,
        unit_of: Callable[[Sequence[Got]], Unit],
        exchange: Callable[[], Exchange],
        tell: Callable[[News], Awaitable[None]],
    ) -> None:
        """Take the functions that make a unit, that commit and get on the thread, and that report `News` on the event loop."""
        self._state: Final = state
        self._session: Final = session
        self._number: Final = number
        self._unit_of: Final = unit_of
        self._exchange: Final = exchange
        self._tell: Final = tell
        self._wants_news: Final = state.broadcast.wanted(Delivered) or state.broadcast.wanted(Settled)
        self._news: Final[deque[News]] = deque()
        self._lock: Final = session.runner.lock()
        self._given_up = False
        self._in_handler = False
        self._settling_since: float | None = None
        #: The unit of work that the thread handles now.
        self.unit: Unit | None = None

    # -- these methods run on the event loop

    async def serve(self, unit: Unit) -> HandedBack:
        """Handle this unit and further units, until the worker must continue. If the caller is cancelled, call `give_up`."""
        with anyio.CancelScope() as scope:
            self._place = WorkerThread(scope)
            self._answer = self._session.begin(partial(self._run, unit, copy_context()))
            return await self._wait(self._answer)
        raise AssertionError("nothing cancels this scope")

    async def give_up(self, error: BaseException) -> HandedBack | None:
        """Prevent further commits by the thread. Return the work that the thread leaves; None if its handler still runs.

        Nobody waits for such a handler: when it returns, the thread backs out its unit and ends.
        """
        with self._lock:
            self._given_up = True
            in_handler = self._in_handler
        await self._tell_news()
        self._state.handling.pop(self._number, None)
        if in_handler:
            self._place.cancel(error)
            self._session.leave()
            return None
        with anyio.CancelScope(shield=True):
            return await self._wait(self._answer)
        raise AssertionError("nothing cancels this scope")

    async def _wait(self, answer: OneShot) -> HandedBack:
        """Wait for the thread, and report its `News` meanwhile. If a commit gets no answer in time, it is in doubt."""
        look_s = _NEWS_S
        while True:
            with anyio.move_on_after(self._until_look_s(look_s)):
                back, error = await answer.wait()
                await self._tell_news()
                raise_if(error)
                return cast("HandedBack", back)  # a `OneShot` can carry any value; this thread sends only `HandedBack`
            look_s = _NEWS_S if await self._tell_news() else min(2 * look_s, _NEWS_S_MAX)
            if (doubt := self._overdue()) is not None:
                return doubt

    def _until_look_s(self, look_s: float) -> float:
        since = self._settling_since
        left_s = session_limits.SETTLE_DEADLINE_S - (self._state.clock.monotonic() - since if since is not None else 0.0)
        return min(max(left_s, 0.0), look_s) if self._wants_news else max(left_s, 0.0)

    def _overdue(self) -> HandedBack | None:
        """Return the unit whose commit got no answer in time, with the error; None if no commit is late.

        Always None if the connection itself ends a call that gets no answer (`detects_dead_peers`).
        """
        session = self._session
        with self._lock:
            since = self._settling_since
            if since is None or session.has_settled or session.detects_dead_peers:
                return None
            if self._state.clock.monotonic() - since < session_limits.SETTLE_DEADLINE_S:
                return None
            self._given_up = True
        session.leave()
        detail = f"No answer came within {session_limits.SETTLE_DEADLINE_S:g} s"
        error = error_for(Reason.CALL_INTERRUPTED, "MQCMIT", "", session.connection.queue_manager_name, detail)
        return HandedBack(Exchange(settle_error=error), settled=self.unit)

    async def _tell_news(self) -> bool:
        has_told = bool(self._news)
        while self._news:
            await self._tell(self._news.popleft())
        return has_told

    # -- these methods run on the thread

    def _run(self, unit: Unit, context: Context) -> HandedBack:
        with self._place.entered():
            try:
                while isinstance(step := self._step(unit, context), Unit):
                    unit = step
                return step
            finally:
                self._in_handler = False
                self._settling_since = None

    def _step(self, unit: Unit, context: Context) -> Unit | HandedBack:
        """Handle the unit, commit it and get the next. Return the next unit if the thread can handle it."""
        if not (self._handle(unit, context) and self._may_settle()):
            return HandedBack(unit=unit)
        exchange = self._exchange()
        if self._state.calls is not None and self._settling_since is not None:
            unit.settle_s = self._state.clock.monotonic() - self._settling_since
        self._settling_since = None
        settled: Unit | None = unit
        if exchange.settle_error is None:
            self.unit = None
            if self._wants_news:
                self._news.append(News(unit, is_committed=True))
                settled = None
        if not exchange.unit:
            return HandedBack(exchange, settled)
        following = self._unit_of(exchange.unit)
        state = self._state
        is_usual = not (state.refused or state.refused_commits or len(self._news) > _NEWS_MAX)
        if is_usual and not following.is_redelivered:
            return following
        return HandedBack(exchange, settled, unit=following)

    def _may_settle(self) -> bool:
        with self._lock:
            self._in_handler = False
            self._settling_since = self._state.clock.monotonic()
            return not self._given_up

    def _handle(self, unit: Unit, context: Context) -> bool:
        """Call the handler for each delivery. Return whether all handlers have completed."""
        with self._lock:
            if self._given_up:
                return False
            self._in_handler = True
            self.unit = unit
        if self._wants_news:
            unit.is_told = True
            self._news.append(News(unit, is_committed=False))
        return all(not self._given_up and self._completes(each, context.copy()) for each in unit.deliveries)

    def _completes(self, delivery: Delivery, context: Context) -> bool:
        """Call the handler, and return whether it has completed. If not, the worker gets the rest of the handling."""
        clock, handling = self._state.clock, self._state.handling
        delivery.on_thread = True
        delivery.started = started = clock.monotonic()
        handling[self._number] = (delivery, started)
        steps: Any = self._state.spec.handle((delivery,))
        try:
            context.run(steps.send, None)
        except StopIteration as end:
            if end.value is None or isinstance(end.value, Completed):
                delivery.is_over = True
                delivery.handled_s = clock.monotonic() - started
                if not self._given_up:  # after `give_up`, this entry can belong to a newer worker
                    handling.pop(self._number, None)
                return True
            delivery.rest = partial(_returned, end.value)
        except BaseException as error:  # noqa: BLE001 - `call_handler` makes an outcome of it, on the event loop
            delivery.rest = partial(_raised, error)
        else:  # suspended by `on_the_loop`
            delivery.rest = partial(_resumed, steps)
        delivery.on_thread = False
        return False


@coroutine
def on_the_loop() -> Generator[None, None, None]:
    """Continue the handling of this delivery on the event loop.

    Only code of a delivery with `on_thread` calls this function. It is the only wait that is possible there.
    """
    yield


async def rest_of(deliveries: Sequence[Delivery]) -> Outcome | None:
    """Finish the handling that the thread has begun. This function is a `Handle` (see `delivery`)."""
    rest = deliveries[0].rest
    return await rest() if rest is not None else None


async def _returned(outcome: Outcome) -> Outcome:
    return outcome


async def _raised(error: BaseException) -> Outcome:
    raise error


@coroutine
def _resumed(steps: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from steps)
