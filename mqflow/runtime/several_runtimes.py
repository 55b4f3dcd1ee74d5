"""Runs the runtimes of an application that uses several queue managers: with one start, one stop and one drain.

Each runtime has its own supervisor, so an outage of one queue manager does not stop the listeners of another queue manager.
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
    """The runtimes of one application, by the name of the queue manager. The application's own runtime has an empty name."""

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes: Final = runtimes
        self._stopping: Final = anyio.Event()

    @asynccontextmanager
    async def running(self, *, drain_s: float) -> AsyncIterator[None]:
        """Run every listener inside this context, as `Runtime.running` does. At its end all drain at the same time.

        The context begins when all listeners of every queue manager have started. Listeners that have started earlier already
        get messages. An error during the start ends the start of all. After the start, an error can end the listeners of one
        queue manager; those of other queue managers go on (`Runtime.give_up`). If no other queue manager has work, the error is
        raised.
        """
        try:
            async with anyio.create_task_group() as group:
                try:
                    async with anyio.create_task_group() as starts:
                        for name, runtime in self._runtimes.items():
                            starts.start_soon(group.start, partial(self._run, name, runtime, drain_s))
                    yield
                finally:  # the end of its context stops and drains each runtime
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
