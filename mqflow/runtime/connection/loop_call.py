"""Calls from other threads into the event loop, for asyncio and trio: calls of functions, and an event with a value.

`anyio.from_thread` is not used, because it blocks its caller: for example, a thread that wakes sixteen sessions must not block.
This module knows no session.
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Final

import anyio
from anyio.lowlevel import RunVar, checkpoint, current_token

from mqflow.runtime.cancellation import is_by_scope
from mqflow.world import wake

__all__ = ("LoopCaller", "OneShot", "start_task")


class WaitingCalls:
    """The calls that wait for one event loop. Any thread can add a call. The loop is woken once for all calls that wait."""

    __slots__ = ("_calls", "_is_woken", "_soon", "asyncio_loop", "deadlines")

    def __init__(self, soon: Callable[[Callable[[], object]], object], asyncio_loop: Any = None) -> None:
        """Take `soon`, the function of the event loop that any thread may call to run a function on the loop."""
        self._soon: Final = soon
        #: None on trio.
        self.asyncio_loop: Final = asyncio_loop
        #: None on trio.
        self.deadlines: Final = None if asyncio_loop is None else Deadlines(asyncio_loop)
        self._calls: Final[deque[Callable[[], object]]] = deque()
        self._is_woken = False

    def add(self, function: Callable[[], object]) -> None:
        """Run the function on the loop, after the functions that were added before."""
        self._calls.append(function)
        if not self._is_woken:
            wake(self._wake)

    def _wake(self) -> None:
        self._is_woken = True
        try:
            self._soon(self._run)
        except RuntimeError:  # the loop has ended, so no task waits for the call
            return

    def _run(self) -> None:
        self._is_woken = False  # must come before the first call: a call added later runs below, or wakes the loop
        try:
            while self._calls:
                self._calls.popleft()()
        finally:
            if self._calls:  # a call has raised an exception, and the loop reports it
                self._wake()


_WAITING: Final = RunVar[WaitingCalls]("calls from other threads")


class LoopCaller:
    """Runs small functions on the event loop on which this object was made. Any thread can call it, and no call blocks."""

    __slots__ = ("_thread", "_waiting", "asyncio_loop", "deadlines")

    def __init__(self) -> None:
        waiting = _WAITING.get(None)
        if waiting is None:
            token: Any = current_token().native_token  # the asyncio loop, or trio's token: anyio has no type for them
            if hasattr(token, "call_soon_threadsafe"):
                soon = partial(token.call_soon_threadsafe, context=_context_of_asyncio())
                waiting = WaitingCalls(soon, token)
            else:
                waiting = WaitingCalls(token.run_sync_soon)
            _WAITING.set(waiting)
        self._waiting: Final = waiting
        self.asyncio_loop: Final = waiting.asyncio_loop
        self.deadlines: Final = waiting.deadlines
        self._thread: Final = threading.get_ident()

    def __call__(self, function: Callable[[], object]) -> None:
        """Run the function: now if the caller is on the loop's thread, otherwise soon."""
        if threading.get_ident() == self._thread:
            function()
        else:
            self._waiting.add(function)


def _context_of_asyncio() -> Context:
    """Return an empty context in which anyio finds asyncio, although a callback of the loop runs outside of any task.

    anyio uses sniffio for this, if it is installed. Events are reported in these callbacks, and their hooks may use anyio.
    """
    context = Context()
    sniffio: Any = sys.modules.get("sniffio")  # anyio has imported it
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


class OneShot:
    """Carries one value from any thread to the one task that waits for it."""

    __slots__ = ("_loop_caller", "_waiter", "has_come", "value")

    def __init__(self, loop_caller: LoopCaller) -> None:
        self._loop_caller = loop_caller
        self.value: Any = None  # the waiter knows the type
        #: On asyncio a future, because an event takes twice as long; on trio an event. None if the task does not wait now.
        self._waiter: Any = None
        #: True if a value was passed on.
        self.has_come: bool = False

    def pass_on(self, value: object = None) -> None:
        """Pass the value to the waiter. Values after the first are ignored."""
        self._loop_caller(partial(self._take, value))

    def _take(self, value: object) -> None:
        if self.has_come:
            return
        self.value, self.has_come = value, True
        self.end_wait()

    def end_wait(self) -> None:
        """Resume the task that waits, without a value."""
        waiter = self._waiter
        if isinstance(waiter, anyio.Event):
            waiter.set()
        elif waiter is not None and not waiter.done():  # a future is done if the wait was cancelled
            waiter.set_result(None)

    async def wait(self) -> Any:
        """Wait for the value, and return it."""
        loop = self._loop_caller.asyncio_loop
        if self.has_come:
            await checkpoint()
        elif loop is None:
            self._waiter = anyio.Event()
            await self._waiter.wait()
        else:
            self._waiter = loop.create_future()
            await self._waiter
        return self.value

    async def comes_within(self, limit_s: float) -> bool:
        """Wait for the value at most this long. Return whether it has come.

        A cancel scope around the caller does not end the wait. On asyncio, other code that cancels the task ends it.
        """
        deadlines = self._loop_caller.deadlines
        if deadlines is None:
            deadline = anyio.current_time() + limit_s
        else:  # a cancel scope takes much longer than `deadlines`, so it is made only after a cancellation
            deadline = deadlines.add(self, limit_s)
            try:
                await self.wait()
            except anyio.get_cancelled_exc_class():
                if not await is_by_scope():
                    raise
            else:
                return self.has_come
            finally:
                deadlines.remove(self)
        with anyio.CancelScope(deadline=deadline, shield=True):
            await self.wait()
        return self.has_come


class Deadlines:
    """Ends the waits on an asyncio loop at their deadlines, with one timer for all waits.

    Every durable commit waits. A timer for each wait would take 2.5 microseconds; this takes 0.5.
    """

    __slots__ = ("_fires_at", "_loop", "_timer", "_waits")

    def __init__(self, loop: Any) -> None:
        self._loop: Final = loop
        self._waits: Final[dict[OneShot, float]] = {}
        self._timer: Any = None
        self._fires_at = math.inf

    def add(self, wait: OneShot, limit_s: float) -> float:
        """Begin to watch a wait: it ends after `limit_s`. Return its deadline on the clock of the loop."""
        deadline: float = self._loop.time() + limit_s
        self._waits[wait] = deadline
        if deadline < self._fires_at:
            self._fire_at(deadline)
        return deadline

    def remove(self, wait: OneShot) -> None:
        """Stop watching the wait. The timer stays: when it fires, it is set again for the waits of that time."""
        del self._waits[wait]

    def _fire_at(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = self._loop.call_at(deadline, self._fire), deadline

    def _fire(self) -> None:
        self._timer, self._fires_at = None, math.inf
        now = self._loop.time()
        for wait, deadline in self._waits.items():
            if deadline <= now:
                wait.end_wait()
            elif deadline < self._fires_at:
                self._fire_at(deadline)


def start_task(function: Callable[[], Coroutine[Any, Any, None]]) -> object:
    """Start a task that belongs to no task group, with an empty context. Keep the result until the function has returned.

    The function must end by itself, and must raise nothing. A task group cannot be used here, because it binds the caller to
    one task. A test or a notebook can enter an application in one task and leave it in another.
    """
    token: Any = current_token().native_token  # as in `LoopCaller`
    if hasattr(token, "create_task"):
        return token.create_task(function(), context=Context())
    import trio  # noqa: PLC0415 - only a program that runs on trio has it

    return trio.lowlevel.spawn_system_task(function, context=Context())
