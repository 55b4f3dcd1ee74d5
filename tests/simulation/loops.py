"""An event loop in a world: asyncio or trio. Instead of waiting, the loop lets the world continue.

The loop takes turns with the threads. A thread calls the loop with `runtime.connection.loop_call`, as in the real program.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from mqflow.testing.virtual_time import Backend
from mqflow.testing.virtual_trio import _dice
from tests.simulation.world import World

__all__ = ("run",)

T = TypeVar("T")


def run(world: World, main: Callable[[], Coroutine[Any, Any, T]], backend: Backend, seed: int) -> T:
    """Return what `main` returns, run on a new loop of the world."""
    if backend == "asyncio":
        return anyio.run(main, backend="asyncio", backend_options={"loop_factory": partial(_Loop, world)})
    try:
        with _dice(seed):
            return anyio.run(main, backend="trio", backend_options={"clock": _Clock(world)})
    except trio.TrioInternalError as error:  # an exception of the world while trio slept
        raise error.__cause__ or error from None


class _Turning(selectors.BaseSelector):
    """A selector that never waits for a real file: no file of the loop ever has data."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.loop: _Loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        world = self._world
        if timeout is not None and timeout <= 0:
            world.beside()
        else:
            world.turn(math.inf if timeout is None else world.now + timeout, self.loop.has_work)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class _Loop(asyncio.SelectorEventLoop):
    """The event loop of asyncio, with the time of the world."""

    _ready: list[object]

    def __init__(self, world: World) -> None:
        selector = _Turning(world)
        self._world = world
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._world.now

    def has_work(self) -> bool:
        """Whether a task can continue."""
        return bool(self._ready)


class _Clock(trio.abc.Clock):
    """If no task can continue, trio asks the clock how long to sleep. The clock runs the world, and trio need not sleep."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start_clock(self) -> None:
        """Do nothing: the clock needs no start."""

    def current_time(self) -> float:
        return self._world.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        runner = GLOBAL_RUN_CONTEXT.runner
        if runner.main_task_outcome is None:  # otherwise trio is ending, with a real pipe to itself
            self._world.turn(deadline, lambda: bool(runner.runq))
        return 0.0
