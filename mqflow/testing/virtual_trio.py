"""Virtual time on trio: a clock that jumps, and an instrument that makes it jump.

This file uses public parts of trio, except for trio's random generator. It is separate from `virtual_time`, because trio is
optional.
"""

import math
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import trio
from trio._core import _run as trio_run
from trio._core._run import GLOBAL_RUN_CONTEXT

from mqflow.testing.virtual_clock import PATIENCE_S, POLL_S, Ending, TurnCounter, VirtualClock, deadlock, waits_for_thread
from mqflow.world import SYSTEM_CLOCK

__all__ = ("run_on_trio",)

T = TypeVar("T")

_IDLE_S: Final = 1e-9
"""The requested wait, in seconds. Trio passes it to `before_io_wait`, unless a task waits until all tasks block.

In that case that task runs first.
"""


def run_on_trio(main: Callable[[], Coroutine[Any, Any, T]], time: VirtualClock, seed: int) -> T:
    """Run `main` on trio, as `virtual_time.run` does; return the result of `main`."""
    ending = Ending()
    jumping = _Jumping(time, ending)
    options = {"clock": _Clock(time, jumping), "instruments": [jumping]}
    with _dice(seed):
        return anyio.run(ending.run, main, backend="trio", backend_options=options)


class _Clock(trio.abc.Clock):
    """Reads the virtual clock, and passes the next deadline of the loop to the instrument."""

    def __init__(self, time: VirtualClock, jumping: "_Jumping") -> None:
        self._time = time
        self._jumping = jumping

    def start_clock(self) -> None:
        """Do nothing: the clock moves on request only."""

    def current_time(self) -> float:
        return self._time.monotonic()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return self._jumping.idle(deadline)


class _Jumping(trio.abc.Instrument):
    """Moves the clock to the next deadline instead of letting the loop wait for it."""

    def __init__(self, time: VirtualClock, ending: Ending) -> None:
        self._time = time
        self._ending = ending
        self._turns = TurnCounter(time)
        self._deadline: float | None = None
        self._listening_since: float | None = None

    def idle(self, deadline: float) -> float:
        """Return how many real seconds the loop may wait, now that no task can run before `deadline`."""
        self._turns.idle()
        if self._time.is_quiet and self._only_idle():
            deadline = math.inf
        self._deadline = deadline
        if deadline <= self._time.monotonic():
            return 0.0
        if self._real_work() and self._listens(self._time.real_work_s_max):
            return POLL_S
        if deadline == math.inf:
            if self._listens(PATIENCE_S):
                return POLL_S
            if self._ending.error is not None:  # the tasks were cancelled before, and still no task runs
                raise self._ending.error
        return _IDLE_S

    def before_io_wait(self, timeout: float) -> None:
        """Advance the clock to the deadline, unless the loop waits for a thread, or a task waits until all tasks block."""
        deadline, self._deadline = self._deadline, None
        if deadline is None:
            self._turns.turn()
        elif timeout == _IDLE_S and deadline < math.inf:
            self._time.advance(deadline - self._time.monotonic())
            _soon(lambda: None)
        elif timeout == _IDLE_S:
            waiting = ((task.name, task.coro) for task in _tasks(trio.lowlevel.current_root_task()))
            _soon(partial(self._ending.end, deadlock(self._time, waiting)))

    def _only_idle(self) -> bool:
        """Return whether every deadline belongs to an idle listener. Reads private parts of trio: deadlines and tasks."""
        for deadline, _, scope in GLOBAL_RUN_CONTEXT.runner.deadlines._heap:  # noqa: SLF001 - see above
            if scope._registered_deadline == deadline:  # noqa: SLF001 - as above
                tasks = () if scope._cancel_status is None else scope._cancel_status._tasks  # noqa: SLF001 - as above
                if not tasks or not all(self._time.idles(task.coro) for task in tasks):
                    return False
        return True

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - trio's signature
        """End the current wait for threads, because a task runs."""
        self._listening_since = None

    def _real_work(self) -> bool:
        return self._time.is_held or any(waits_for_thread(task.coro) for task in _tasks(trio.lowlevel.current_root_task()))

    def _listens(self, real_s: float) -> bool:
        now = SYSTEM_CLOCK.monotonic()
        if self._listening_since is None:
            self._listening_since = now
        return now - self._listening_since < real_s


def _soon(function: Callable[[], object]) -> None:
    """Run the function in the loop. This also ends the next wait at once, which `epoll` would otherwise round up to 1 ms."""
    trio.lowlevel.current_trio_token().run_sync_soon(function)


def _tasks(root: trio.lowlevel.Task | None) -> Iterator[trio.lowlevel.Task]:
    """Yield the tasks of the program. Trio's own tasks, which are children of the root beside the main task, are left out."""
    below = [] if root is None else [task for nursery in root.child_nurseries for task in nursery.child_tasks]
    while below:
        task = below.pop()
        if "trio._core" not in task.name and not task.name.startswith("<Trio"):
            yield task
        below += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


@contextmanager
def _dice(seed: int) -> Iterator[None]:
    """Make trio choose among runnable tasks by this seed. Sets private parts of trio, because trio has no public way."""
    switch, state = trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r.getstate()  # noqa: SLF001 - see above
    trio_run.__dict__["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    trio_run._r.seed(seed)  # noqa: SLF001 - see above
    try:
        yield
    finally:
        trio_run.__dict__["_ALLOW_DETERMINISTIC_SCHEDULING"] = switch
        trio_run._r.setstate(state)  # noqa: SLF001 - see above
