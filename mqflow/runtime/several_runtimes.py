"""Runs the runtimes of an application with several queue managers: one start, one stop, one drain.

Each runtime has its own supervisor, so an outage of one queue manager does not stop the listeners of another. This file knows
no listener and no message.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskStatus

from mqflow.mqi.errors import MQIError
from mqflow.runtime.cancellation import undisturbed
from mqflow.runtime.runtime import Runtime, only_exception

__all__ = ("SeveralRuntimes",)


class SeveralRuntimes:
    """The runtimes of one application, by the name of each queue manager; the application's own has the empty name."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes: Final = runtimes
        self._stopping: Final = anyio.Event()

    @asynccontextmanager
    async def running(self, *, drain_s: float) -> AsyncIterator[None]:
        """Run every listener inside this context, as `Runtime.running` does. At its end all drain at the same time.

        The context begins when the listeners of every queue manager have started; until then, those that have started work. An
        error at the start ends the start of all. After the start, an error can end the listeners of one queue manager. Then the
        others go on (`Runtime.give_up`). If no other queue manager has work, the error is raised.
        """
        try:
            async with anyio.create_task_group() as group:
                try:
                    async with anyio.create_task_group() as starts:
                        for name, runtime in self._runtimes.items():
                            starts.start_soon(group.start, partial(self._run, name, runtime, drain_s))
                    yield
                finally:  # each runtime leaves its context now, which stops it and then drains it
                    self._stopping.set()
        except BaseExceptionGroup as error:
            raise only_exception(error) from None

    async def _run(self, name: str, runtime: Runtime, drain_s: float, *, task_status: TaskStatus[None]) -> None:
        has_started = False
        try:
            async with runtime.running(drain_s=drain_s):
                has_started = True
                task_status.started()
                await undisturbed(self._stopping.wait)
        except (MQIError, ExceptionGroup) as error:
            others = (other for other in self._runtimes.values() if other is not runtime)
            if not has_started or not any(other.works for other in others):
                raise
            runtime.give_up(name, error)
