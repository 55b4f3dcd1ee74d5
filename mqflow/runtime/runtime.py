"""Runs all listeners and services of an application: starts them, drains them at the end, and cancels those that take too long.

How an application stops: first, no listener gets a new message. Then handlers and services have `drain_s` seconds to finish and
to commit their units of work. After that, mqflow reports the running handlers with their stacks, and cancels all running
handlers and services; this backs out their units of work. If a handler ignores its cancellation, `left_after` names it.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct

from mqflow.events import Draining, Warned
from mqflow.policy.health.records import ListenerStatus
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.readiness import Readiness
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.long_retries import Retries
from mqflow.runtime.delay.processor import DelayProcessor
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, StagingQueueManager
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.delivery import ListenerSpec
from mqflow.runtime.listener.listener import RunningListener
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.message_notes import MemoryNotes, MessageNotes
from mqflow.runtime.restarts import Restarts, Task
from mqflow.world import World

__all__ = ("IDLE_WAITS", "DecisionRecords", "Runtime", "Service", "Staging", "only_exception")


class Service(Protocol):
    """A task that runs beside the listeners, on its own session, such as the DLQ handler."""

    @property
    def name(self) -> str:
        """The name of the service and its queue, for people."""
        ...

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Run the service until it has ended; or until it was stopped and its unit of work is settled."""

    def stop(self) -> None:
        """Let the service begin no new unit of work."""


class Staging(Struct, frozen=True, kw_only=True):
    """The staging queue of the application, and the number of delay processors for this queue."""

    queue: str = ""
    processors: int = 0
    #: True if the processors put with their own authority; false for the authority of the user that staged the message.
    own_authority: bool = False
    #: Puts a failed message on the staging queue if its handler asked for a long pause; None if the worker waits instead.
    retries: Retries | None = None


class DecisionRecords(Struct, frozen=True, kw_only=True):
    """The settings for records of the application's decisions."""

    #: The queue that gets the records; empty for no records.
    queue: str = ""
    #: Returns the recorder for a service with this name, for example "delay processor".
    recorder: Callable[[str], ConnectionRecorder | None] = lambda _: None
    #: Returns the notes about failed messages of a queue.
    notes: Callable[[str], MessageNotes] = lambda _: MemoryNotes()


IDLE_WAITS: Final = frozenset({InlineSession._wait.__code__, RunningListener._watch.__code__})  # noqa: SLF001 - as names
"""The functions in which an idle listener waits. The test kit finds them in the stack of a task."""
_DRAINING_EVERY_S: Final = 1.0
_NO_STAGING: Final = Staging()
_NO_RECORDS: Final = DecisionRecords()


class Runtime:
    """Runs the listeners and services of one application on one queue manager."""

    def __init__(
        self,
        supervisor: Supervisor,
        specs: Sequence[ListenerSpec],
        *,
        broadcast: Broadcast,
        world: World,
        application_name: str,
        staging: Staging = _NO_STAGING,
        records: DecisionRecords = _NO_RECORDS,
        services: Sequence[Service] = (),
    ) -> None:
        self.supervisor: Final = supervisor
        self._states = [
            ListenerState(
                spec,
                supervisor,
                broadcast=broadcast,
                world=world,
                application_name=application_name,
                retries=staging.retries,
                disposition_queue=records.queue,
                notes=records.notes(spec.queue),
            )
            for spec in specs
        ]
        queues = [staging.queue] * staging.processors
        if isinstance(supervisor.queue_manager, StagingQueueManager) and staging.queue != EMBEDDED_STAGING_QUEUE:
            # Other applications can stage on the queue manager's own queue, and only this process can deliver from it.
            queues.append(EMBEDDED_STAGING_QUEUE)
        processors = [
            DelayProcessor(
                queue,
                supervisor,
                broadcast=broadcast,
                clock=world.clock,
                application_name=application_name,
                records=records.recorder("delay processor"),
                own_authority=staging.own_authority,
            )
            for queue in queues
        ]
        self._broadcast = broadcast
        self._restarts: Final = Restarts(broadcast, world)
        self._services: list[Service] = [*processors, *services]
        self._listeners: Final = [RunningListener(state, self._restarts) for state in self._states]
        #: The listeners and services that run now, in the order in which they were started.
        self._running: dict[RunningListener | Service, None] = {}
        self._stopping: Final = anyio.Event()
        #: True if handlers or services were cancelled before they had finished.
        self.cut_off: bool = False
        self._ended = anyio.Event()
        self._clock: Final = world.clock
        #: The time when the drain is over and all handlers are cancelled, in monotonic seconds.
        self._drain_until = math.inf
        self._cancel: anyio.CancelScope | None = None

    @asynccontextmanager
    async def running(self, *, drain_s: float) -> AsyncIterator[None]:
        """Run every listener inside this context. At its end, drain the listeners, for at most `drain_s` seconds.

        An exception inside the context cancels all listeners. An exception of one listener ends all of them; if it is the only
        exception, it is raised without a group around it.
        """
        try:
            async with anyio.create_task_group() as group:
                self._cancel = group.cancel_scope
                try:
                    for service in self._services:
                        await group.start(self._run, service)
                    for listener in self._listeners:
                        if self._stopping.is_set():  # a stop was requested while an earlier listener was starting
                            break
                        await group.start(self._run, listener)
                    if not self._stopping.is_set():
                        self.supervisor.readiness.started()
                    yield
                finally:  # also after a cancellation, because a get in another thread notices only a stop
                    self.stop()
                await self._drain(drain_s)
        except BaseExceptionGroup as error:
            raise only_exception(error) from None

    def stop(self) -> None:
        """Stop getting messages, and stop waiting for a queue manager. Handlers that run go on."""
        self._stopping.set()
        self.supervisor.stop()
        for listener in self._listeners:
            listener.stop()
        for service in self._services:
            service.stop()

    def watch(self) -> None:
        """From now on, record the call that each worker waits for. Without this, no worker spends time on such records."""
        for listener in self._listeners:
            listener.watch()

    def statuses(self) -> tuple[ListenerStatus, ...]:
        """Return the present state of each listener and its workers. Any thread may call this function."""
        return tuple(listener.status() for listener in self._listeners)

    def order(self, listener: str, *, held: bool | None = None, concurrency: int | None = None) -> None:
        """Pause or resume (`held`) the listener with this name or queue, or change the number of its workers.

        Open units of work are finished and settled first. Raises `ValueError` if the number of workers is not possible.
        """
        found = [each for each in self._listeners if listener in {each.status().name, each.status().queue}]
        for each in found:
            each.check(concurrency)
        for each in found:
            each.order(held=held, concurrency=concurrency)

    @property
    def works(self) -> bool:
        """True if a listener or a service runs, or waits for its connection."""
        return bool(self._running)

    def give_up(self, name: str, error: Exception) -> None:
        """Record that all listeners and services have ended with this error. Those of other queue managers continue.

        This counts as an incident, and the application is not ready any more.
        """
        self._restarts.incidents += 1
        self.supervisor.readiness.lacks(self, str(error))
        text = (
            f"The queue manager {name or self.supervisor.queue_manager_name} is given up, and its listeners have ended. The "
            f"listeners of the other queue managers go on. Remove the cause, then start the application again. {error}"
        )
        self._broadcast(Warned(text=text))

    @property
    def incidents(self) -> int:
        """The number of times that a task of a listener or service has ended although nothing stopped it."""
        return self._restarts.incidents

    @property
    def time_limit_s(self) -> float:
        """The shortest time limit of all listeners; infinity if no listener has one."""
        return min((state.spec.time_limit_s or math.inf for state in self._states), default=math.inf)

    def cancel(self) -> bool:
        """Cancel all listeners and services that run; this backs out their units of work. Return whether any of them ran."""
        if self._cancel is None or not self._running:
            return False
        self._drain_until = min(self._drain_until, self._clock.monotonic())
        if not self.cut_off:
            self.cut_off = True
            names = ", ".join(work.name for work in self._running)
            self._broadcast(Warned(text=f"Cut off: {names}. Uncommitted messages return to their queues."))
        self._cancel.cancel()
        return True

    def left_after(self, bound_s: float) -> str:
        """Return the handlers and services that still run `bound_s` after the end of the drain, with their stacks.

        Before that time, or if nothing runs, return "". Any thread may call this function: a handler can block the event loop.
        """
        if self._clock.monotonic() < self._drain_until + bound_s:
            return ""
        names = [work.name for work in tuple(self._running)]
        return "\n".join((*names, *(text for listener in self._listeners for text in listener.handlers())))

    async def _run(self, work: RunningListener | Service, *, task_status: TaskStatus[None]) -> None:
        """Run a listener or a service until it ends well. If it ends although nothing stopped it, start it again."""
        status = _Status(task_status, self.supervisor.readiness, work.name)
        self._running[work] = None
        task = Task(
            name=work.name,
            run=partial(work.run, task_status=status),
            has_run=lambda: status.has_started,
            lacks=status.lacks,
            stopping=self._stopping,
        )
        try:
            await self._restarts.keep(task)
        finally:
            del self._running[work]
            if not self._running:
                self._ended.set()

    async def _drain(self, drain_s: float) -> None:
        if not self._running:
            return
        self._drain_until = min(self._drain_until, self._clock.monotonic() + drain_s)
        self._ended = anyio.Event()  # the old event can be set, because nothing ran until now
        with anyio.move_on_after(drain_s):
            while True:
                with anyio.move_on_after(_DRAINING_EVERY_S):
                    await self._ended.wait()
                    return
                self._broadcast(self._draining())
        for listener in self._listeners:
            listener.report_stuck(0.0)
        self.cancel()

    def _draining(self) -> Draining:
        """Return the event that reports the progress of a drain."""
        return Draining(
            left_s=self._drain_until - self._clock.monotonic(),
            handlers=tuple(each for listener in self._listeners for each in listener.running()),
            waits_for=tuple(work.name for work in self._running),
        )


class _Status(TaskStatus[None]):
    """Reports the first start of a listener or a service. After a restart it reports nothing, but readiness waits."""

    def __init__(self, first: TaskStatus[None], readiness: Readiness, name: str) -> None:
        self._first: Final = first
        self._readiness: Final = readiness
        self._name: Final = name
        self.has_started = False

    def started(self, value: None = None) -> None:
        self._readiness.has(self)
        if not self.has_started:
            self.has_started = True
            self._first.started(value)

    def lacks(self) -> None:
        self._readiness.lacks(self, self._name)


def only_exception(error: BaseException) -> BaseException:
    """Return the only exception of a group, at any depth. Exceptions with equal texts count as one exception."""
    while isinstance(error, BaseExceptionGroup) and len({str(each) for each in error.exceptions}) == 1:
        error = error.exceptions[0]
    return error
