"""Time that costs nothing: an event loop that jumps to its next timer as soon as nobody has anything to do.

Thirty seconds of reconnecting take a millisecond, and the same run happens the same way each time. Works for asyncio (a loop
of its own) and for trio (a clock of its own), behind one `run`. A run in which nothing can happen any more ends with a
`DeadlockError` that names who waits for what, instead of hanging. Knows no queue manager: its only ties are
the seams of `mqflow.world`.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar, assert_never

import anyio

from mqflow.testing.virtual_clock import PATIENCE_S, POLL_S, TurnCounter, VirtualClock, deadlock, waits_for_thread
from mqflow.world import SYSTEM_CLOCK, THREADS, Event, Lock, Mailbox, Running

__all__ = ("Backend", "InlineRunner", "run")

T = TypeVar("T")

Backend = Literal["asyncio", "trio"]


class _Finished:
    """A thread that is over before anybody can ask."""

    def join(self, timeout: float | None = None) -> None:  # noqa: ARG002 - nothing to wait for
        return

    def is_alive(self) -> bool:
        return False


class InlineRunner:
    """Runs a "thread" where it was started, to its end: no second thread, so no chance. For work that ends by itself."""

    def start(self, target: Callable[[], None], name: str) -> Running:  # noqa: ARG002 - no thread to give the name to
        """Run it now; return what is over."""
        target()
        return _Finished()

    def event(self) -> Event:
        """Return an event; nobody waits for it here."""
        return THREADS.event()

    def lock(self) -> Lock:
        """Return a lock; nobody waits for it here."""
        return THREADS.lock()

    def mailbox(self) -> Mailbox[Any]:
        """Return a mailbox; nobody waits at it here."""
        return THREADS.mailbox()


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    backend: Backend = "asyncio",
    clock: VirtualClock | None = None,
    seed: int = 0,
) -> T:
    """Return what `main` returns, run on a new event loop whose time is the clock's.

    On trio, `seed` decides which of several runnable tasks runs first; asyncio's order is always that of arrival.
    Raises `DeadlockError` where every task waits and no timer is set; whatever `main` raises comes through.
    """
    time = VirtualClock() if clock is None else clock
    match backend:
        case "asyncio":
            options = {"loop_factory": partial(_VirtualLoop, time)}
            return anyio.run(main, backend="asyncio", backend_options=options)
        case "trio":
            from mqflow.testing.virtual_trio import run_on_trio  # noqa: PLC0415 - trio is optional

            return run_on_trio(main, time, seed)
        case _:
            assert_never(backend)


class _Jumping(selectors.DefaultSelector):
    """Waits for real only while real work is under way; otherwise the wait is a jump of the clock."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = TurnCounter(clock)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            self._turns.turn()
            return events
        self._turns.idle()
        if self._real_work() and (events := self._listen()):
            return events
        if timeout is not None:
            self._clock.advance(timeout)
            return []
        events = super().select(PATIENCE_S)
        if not events:
            raise deadlock(self._clock, ((task.get_name(), task.get_coro()) for task in asyncio.all_tasks(self.loop)))
        return events

    def _real_work(self) -> bool:
        return self._clock.is_held or any(waits_for_thread(task.get_coro()) for task in asyncio.all_tasks(self.loop))

    def _listen(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what happens while real work is under way."""
        until = SYSTEM_CLOCK.monotonic() + self._clock.real_work_s_max
        while self._real_work() and SYSTEM_CLOCK.monotonic() < until:
            if events := super().select(POLL_S):
                return events
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        selector = _Jumping(clock)
        self._clock = clock
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._clock.monotonic()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # typeshed's variadics
        future = super().run_in_executor(executor, func, *args)
        self._clock.hold()
        future.add_done_callback(lambda _: self._clock.release())
        return future
