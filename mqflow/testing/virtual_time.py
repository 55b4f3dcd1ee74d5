"""Virtual time: an event loop that jumps to its next timer as soon as no task can run.

Thirty virtual seconds of reconnecting take a real millisecond, and a run repeats exactly. `run` works on asyncio (with a loop
of this file) and on trio (with a clock of `virtual_trio`). If nothing can happen any more, the run does not hang: it ends with
a `DeadlockError` that names the waiting tasks. This file knows no queue manager, only the interfaces of `mqflow.world`.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal, TypeVar, assert_never

import anyio

from mqflow.testing.virtual_clock import PATIENCE_S, POLL_S, Ending, TurnCounter, VirtualClock, deadlock, waits_for_thread
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Backend", "run")

T = TypeVar("T")

Backend = Literal["asyncio", "trio"]


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    backend: Backend = "asyncio",
    clock: VirtualClock | None = None,
    seed: int = 0,
) -> T:
    """Run `main` on a new event loop with the time of the clock; return the result of `main`.

    On trio, `seed` decides which of several runnable tasks runs first; asyncio always runs them in order of arrival.
    Raises `DeadlockError` if every task waits and no timer is set, and every exception of `main`.
    """
    time = VirtualClock() if clock is None else clock
    match backend:
        case "asyncio":
            ending = Ending()
            options = {"loop_factory": partial(_VirtualLoop, time, ending)}
            return anyio.run(ending.run, main, backend="asyncio", backend_options=options)
        case "trio":
            from mqflow.testing.virtual_trio import run_on_trio  # noqa: PLC0415 - trio is optional

            return run_on_trio(main, time, seed)
        case _:
            assert_never(backend)


class _Jumping(selectors.DefaultSelector):
    """A selector that waits in real time only while threads work; otherwise it advances the clock."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, clock: VirtualClock, ending: Ending) -> None:
        super().__init__()
        self._clock = clock
        self._ending = ending
        self._turns = TurnCounter(clock)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            self._turns.turn()
            return events
        self._turns.idle()
        if self._real_work() and (events := self._listen()):
            return events
        if timeout is not None and not (self._clock.is_quiet and self._only_idle()):
            self._clock.advance(timeout)
            return []
        events = super().select(PATIENCE_S)
        if not events:
            tasks = asyncio.all_tasks(self.loop)
            self._ending.end(deadlock(self._clock, ((task.get_name(), task.get_coro()) for task in tasks)))
        return events

    def _only_idle(self) -> bool:
        """Return whether every timer belongs to an idle listener. Reads private parts of asyncio and anyio: timers, tasks."""
        for timer in self.loop._scheduled:  # type: ignore[attr-defined]  # noqa: SLF001 - see above
            # getattr, because the callback of a timer can be any function.
            task = getattr(getattr(timer._callback, "__self__", None), "_host_task", None)  # noqa: SLF001 - see above
            if not timer.cancelled() and not (isinstance(task, asyncio.Task) and self._clock.idles(task.get_coro())):
                return False
        return True

    def _real_work(self) -> bool:
        return self._clock.is_held or any(waits_for_thread(task.get_coro()) for task in asyncio.all_tasks(self.loop))

    def _listen(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the first events that happen while threads work."""
        until = SYSTEM_CLOCK.monotonic() + self._clock.real_work_s_max
        while self._real_work() and SYSTEM_CLOCK.monotonic() < until:
            if events := super().select(POLL_S):
                return events
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on the virtual clock."""

    def __init__(self, clock: VirtualClock, ending: Ending) -> None:
        selector = _Jumping(clock, ending)
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
