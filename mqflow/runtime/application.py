"""All listeners of an application, running: start them, stop them within a time, cancel what does not end.

The order of a stop: no new get; handlers and services finish and their units of work commit, up to `drain_s`; what is left is
named, a handler with its stack, and cancelled, which backs it out.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus

from mqflow.events import Warned
from mqflow.policy.reconnect.delays import LADDER, Ladder
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.processor import DelayProcessor
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, StagingQueueManager
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.delivery import ListenerSpec
from mqflow.runtime.listener.listener import RunningListener
from mqflow.runtime.listener.long_retries import Retries
from mqflow.runtime.listener.shared import ListenerState
from mqflow.verbs import QueueManager
from mqflow.world import Clock, Random, Runner

__all__ = ("Runtime", "Service")


class Service(Protocol):
    """What runs beside the listeners, on a session of its own."""

    @property
    def name(self) -> str:
        """What it is, and of which queue, in words."""
        ...

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Return when it has ended, or was stopped and what was under way is settled."""
        ...

    def stop(self) -> None:
        """Begin nothing any more."""
        ...


class Runtime:
    """The listeners of one application on one queue manager."""

    def __init__(
        self,
        queue_manager: QueueManager,
        specs: Sequence[ListenerSpec],
        *,
        broadcast: Broadcast,
        clock: Clock,
        random: Random,
        runner: Runner,
        application_name: str,
        delay_processors: int = 0,
        staging_queue: str = "",
        retries: Retries | None = None,
        disposition_queue: str = "",
        recorder: Callable[[str], ConnectionRecorder | None] = lambda _: None,
        delays: Ladder = LADDER,
        reconnect_limit_s: float | None = None,
        reconnect_mode: Callable[[], ReconnectMode] = lambda: ReconnectMode.Q_MGR,
        services: Sequence[Callable[[Supervisor], Service]] = (),
    ) -> None:
        self.supervisor: Final = Supervisor(
            queue_manager,
            broadcast=broadcast,
            clock=clock,
            random=random,
            runner=runner,
            name=application_name,
            delays=delays,
            limit_s=reconnect_limit_s,
            mode=reconnect_mode,
        )
        self._states = [
            ListenerState(
                spec,
                self.supervisor,
                broadcast=broadcast,
                clock=clock,
                random=random,
                application_name=application_name,
                retries=retries,
                disposition_queue=disposition_queue,
            )
            for spec in specs
        ]
        staging = [staging_queue] * delay_processors
        if isinstance(queue_manager, StagingQueueManager) and staging_queue != EMBEDDED_STAGING_QUEUE:
            # Others stage on the queue manager's own, and nobody else can deliver from it while this process has it.
            staging.append(EMBEDDED_STAGING_QUEUE)
        processors = [
            DelayProcessor(
                queue,
                self.supervisor,
                broadcast=broadcast,
                clock=clock,
                application_name=application_name,
                records=recorder("delay processor"),
            )
            for queue in staging
        ]
        self._broadcast = broadcast
        self._services: list[Service] = [*processors, *(make(self.supervisor) for make in services)]
        self._listeners: list[RunningListener] = []
        #: Listeners and services, in the order in which they were started.
        self._running: dict[RunningListener | Service, None] = {}
        self._stopped = False
        #: Whether handlers or services were cancelled before they had finished.
        self.cut_off = False
        self._ended = anyio.Event()
        self._cancel: anyio.CancelScope | None = None

    @asynccontextmanager
    async def running(self, *, drain_s: float) -> AsyncIterator[None]:
        """Run every listener inside; on leaving, drain within `drain_s`. An exception inside cancels them instead.

        What ends a listener ends them all, and is raised as it is where it is the only exception.
        """
        try:
            async with anyio.create_task_group() as group:
                self._cancel = group.cancel_scope
                for service in self._services:
                    await group.start(self._run, service)
                for state in self._states:
                    if self._stopped:  # while an earlier one waited for its connection
                        break
                    listener = RunningListener(state)
                    self._listeners.append(listener)
                    await group.start(self._run, listener)
                if not self._stopped:
                    self.supervisor.readiness.started()
                yield
                self.stop()
                await self._drain(drain_s)
        except BaseExceptionGroup as error:
            raise _only(error) from None

    def stop(self) -> None:
        """Get no more, on any queue, and wait for no queue manager; handlers under way go on."""
        self._stopped = True
        self.supervisor.stop()
        for listener in self._listeners:
            listener.stop()
        for service in self._services:
            service.stop()

    def cancel(self) -> bool:
        """Cancel what still runs: its units of work are backed out. Return whether there was anything."""
        if self._cancel is None or not self._running:
            return False
        if not self.cut_off:
            self.cut_off = True
            names = ", ".join(work.name for work in self._running)
            self._broadcast(Warned(text=f"Cut off before the end: {names}. What is not committed is on its queue again."))
        self._cancel.cancel()
        return True

    async def _run(self, work: RunningListener | Service, *, task_status: TaskStatus[None]) -> None:
        self._running[work] = None
        try:
            await work.run(task_status=task_status)
        finally:
            del self._running[work]
            if not self._running:
                self._ended.set()

    async def _drain(self, drain_s: float) -> None:
        if not self._running:
            return
        self._ended = anyio.Event()  # nothing may have run for a moment before
        with anyio.move_on_after(drain_s):
            await self._ended.wait()
            return
        for listener in self._listeners:
            listener.name_stuck(0.0)
        self.cancel()


def _only(error: BaseException) -> BaseException:
    """Return the one exception of a group, however deep; several workers that say the same say one thing."""
    while isinstance(error, BaseExceptionGroup) and len({str(each) for each in error.exceptions}) == 1:
        error = error.exceptions[0]
    return error
