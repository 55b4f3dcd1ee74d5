"""Runs the workers of a listener, each on its own session, from the first open to the end of the drain.

This module starts the workers, and connects their sessions again after an outage. It pauses the workers while their queue
refuses calls, restarts a worker that failed, and reports stuck handlers. It handles no message; `worker` does that.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from mqflow.events import HandlerRuns, HandlerStuck, ListenerStarted, ListenerStopped, Warned
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.policy.health.records import Doing, ListenerStatus, WorkerStatus
from mqflow.policy.poison.queue_warning import queue_warning
from mqflow.policy.reconnect.reason_classes import Class, classify, needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener.backout_settings import why_unknown
from mqflow.runtime.listener.delivery import Delivery, ListenerSpec
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.settler import SessionLost
from mqflow.runtime.listener.worker import Worker
from mqflow.runtime.restarts import EndedEarlyError, Restarts, Task
from mqflow.runtime.watchdog import place_of, stack_of
from mqflow.verbs import ObjectHandle

__all__ = ("RunningListener",)

# The shortest time between two checks, because the time of the event loop can differ slightly from the time of the clock.
_WATCH_S_MIN: Final = 0.05


class _CallOnce:
    """Calls a function only once: at the first call. Later calls do nothing."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function: Callable[[], object] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


class _WorkerSlot:
    """The facts about one worker that outlive its session: whether its queue was open, and which session it lost."""

    def __init__(self, supervisor: Supervisor, queue: str) -> None:
        self._supervisor: Final = supervisor
        self._queue: Final = queue
        self.lost: Session | None = None
        self.was_open = False

    def opened(self) -> None:
        self.was_open = True
        self._supervisor.readiness.has(self)

    def closed(self) -> None:
        self._supervisor.readiness.lacks(self, self._queue)

    def lose(self, error: MQIError, session: Session) -> None:
        self.lost = session
        self._supervisor.lost(error, session)
        self.closed()


class RunningListener:
    """Runs the workers of one listener."""

    def __init__(self, state: ListenerState, restarts: Restarts) -> None:
        self._state: Final = state
        self._restarts: Final = restarts
        self._slots: dict[int, _WorkerSlot] = {}
        #: The sessions in the order of their start, with the numbers of their workers. A set is not used, because its order
        #: differs in each run, and simulated runs must be repeatable.
        self._sessions: dict[Session, int] = {}
        #: The numbers of the workers that run now, with or without a session.
        self._serving: set[int] = set()
        self._workers: TaskGroup | None = None
        #: The deliveries that were reported as stuck and were still handled at the last look.
        self._reported: set[Delivery] = set()
        #: True if every worker has tried to open its queue. A call that is refused after that means that an administrator has
        #: changed something.
        self._started = False
        #: True if a worker has checked BOTHRESH and BOQNAME, to warn an operator.
        self._checked = False

    @property
    def name(self) -> str:
        """The name of the listener, for people."""
        return f"listener {self._state.spec.name}"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the workers until the listener is stopped and all workers have ended.

        The listener counts as started when every worker has tried to open its queue. Raises `MQIError` if a queue cannot be
        opened at the start, or if reconnecting fails permanently.
        """
        state, spec = self._state, self._state.spec
        try:
            async with anyio.create_task_group() as workers:
                self._workers = workers
                for number in range(state.concurrency):
                    await workers.start(self._serve, number)
                self._started = True
                self._start_missing(workers)  # an operator can have ordered more workers during the start
                state.broadcast(ListenerStarted(queue=spec.queue, listener=spec.name, concurrency=state.concurrency))
                task_status.started()
                workers.start_soon(self._keep, f"the watch of {self.name}", self._watch, lambda: True, lambda: None)
        finally:
            if state.subscriber is not None:
                await state.subscriber.close()
            state.broadcast(ListenerStopped(queue=spec.queue, listener=spec.name))
        if not state.stopping.is_set():
            raise EndedEarlyError("Its workers were cancelled from within: code of the application cancelled their task group.")

    def stop(self) -> None:
        """Stop getting messages. The open units of work are finished and settled, then `run` returns."""
        self._state.stop()
        for session in self._sessions:
            session.interrupt()

    def check(self, concurrency: int | None) -> None:
        """Raise `ValueError` if the listener cannot have this number of workers."""
        if concurrency is not None and not (type(concurrency) is int and concurrency >= 1):
            raise ValueError(f"concurrency {concurrency!r}: a listener has 1 worker or more. `pause` stops its gets.")
        if concurrency not in {None, 1} and self._state.spec.strict_order:
            raise ValueError(f"{self.name} is in strict order, so it has one worker.")

    def order(self, *, held: bool | None = None, concurrency: int | None = None) -> None:
        """Pause or resume the listener (`held`), or change the number of workers. Open units of work are settled first.

        A paused listener has no session. Its queue is closed as soon as its units of work are settled.
        """
        state = self._state
        state.order(held=held, concurrency=concurrency)
        for session in self._sessions:
            session.interrupt()
        if self._workers is not None and self._started:
            self._start_missing(self._workers)

    def _start_missing(self, workers: TaskGroup) -> None:
        if self._state.is_stopping:
            return
        for number in range(self._state.concurrency):
            if number not in self._serving:
                self._serving.add(number)
                workers.start_soon(self._serve, number)

    def watch(self) -> None:
        """From now on, record the call that each worker waits for."""
        self._state.watch()

    def status(self) -> ListenerStatus:
        """Return the present state of the listener and its workers. Any thread may call this function."""
        state, spec = self._state, self._state.spec
        return ListenerStatus(
            name=spec.name,
            queue=spec.queue,
            is_topic=spec.subscription is not None,
            concurrency=state.concurrency,
            paused=state.why_paused,
            held=state.is_held,
            stuck_after_s=spec.stuck_after_s,
            workers=tuple(self._worker_status(number) for number in sorted(self._serving.copy())),
        )

    def _worker_status(self, number: int) -> WorkerStatus:
        state, has_session = self._state, number in tuple(self._sessions.copy().values())
        handling = state.handling.get(number)
        if handling is not None:
            delivery, since = handling
            is_slow = state.clock.monotonic() - since >= state.spec.stuck_after_s
            return WorkerStatus(
                number=number,
                doing=Doing.HANDLING,
                since=since,
                message_id=delivery.got.descriptor.message_id.hex(),
                is_running=isinstance(delivery.running, CoroutineType) and delivery.running.cr_running,
                at=place_of(delivery.running),
                stack=stack_of(delivery.running) if is_slow else "",
            )
        call = None if state.calls is None else state.calls.get(number)
        if call is not None:
            doing = Doing.IDLE if call.is_get else Doing.SETTLING
            return WorkerStatus(number=number, doing=doing, since=call.since, wait_s=call.wait_s)
        if state.why_paused:
            return WorkerStatus(number=number, doing=Doing.SETTLING if state.is_held and has_session else Doing.PAUSED)
        if not has_session:
            return WorkerStatus(number=number, doing=Doing.CONNECTING)
        # A worker without a call is between two calls; but if the listener has a gate, the worker waits there for its turn.
        is_between = state.calls is not None and state.gate is None
        return WorkerStatus(number=number, doing=Doing.SETTLING if is_between else Doing.IDLE)

    def report_stuck(self, longer_than_s: float) -> None:
        """Report each handler that has run longer than `longer_than_s`, with its stack. Report each delivery only once."""
        now = self._state.clock.monotonic()
        handling = tuple(self._state.handling.values())
        self._reported.intersection_update([delivery for delivery, _ in handling])
        for delivery, since in handling:
            if now - since < longer_than_s or delivery in self._reported:
                continue
            self._reported.add(delivery)
            event = HandlerStuck(
                queue=delivery.queue,
                listener=delivery.listener,
                message_id=delivery.got.descriptor.message_id,
                running_s=now - since,
                stack=stack_of(delivery.running),
            )
            self._state.broadcast(event)

    def running(self) -> Sequence[HandlerRuns]:
        """Return each handler that runs now, and the line that it executes."""
        now = self._state.clock.monotonic()
        return [
            HandlerRuns(
                queue=delivery.queue,
                listener=delivery.listener,
                message_id=delivery.got.descriptor.message_id,
                running_s=now - since,
                frame=place_of(delivery.running),
            )
            for delivery, since in tuple(self._state.handling.values())
        ]

    def handlers(self) -> Sequence[str]:
        """Return a text for each handler that runs: its message, its seconds and its stack. Any thread may call this."""
        now, name = self._state.clock.monotonic(), self._state.spec.name
        return [
            f"{name}: the handler of message {delivery.got.descriptor.message_id.hex()} has run for {now - since:.0f} s\n"
            f"{stack_of(delivery.running)}"
            for delivery, since in tuple(self._state.handling.values())
        ]

    async def _serve(self, number: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run one worker until the listener stops or needs fewer workers. After any other end, start the worker again."""
        started = _CallOnce(task_status.started)
        self._serving.add(number)
        slot = self._slots.setdefault(number, _WorkerSlot(self._state.supervisor, self._state.spec.queue))
        slot.closed()
        run = partial(self._serve_sessions, number, slot, started)
        await self._keep(f"worker {number} of {self.name}", run, partial(self._has_run, slot), slot.closed)
        self._serving.discard(number)
        if not self._state.is_stopping:  # the number of workers was reduced
            self._state.supervisor.readiness.has(slot)
        started()

    async def _keep(
        self, name: str, run: Callable[[], Awaitable[None]], has_run: Callable[[], bool], lacks: Callable[[], None]
    ) -> None:
        stopping, queue = self._state.stopping, self._state.spec.queue
        await self._restarts.keep(Task(name=name, queue=queue, run=run, has_run=has_run, lacks=lacks, stopping=stopping))

    async def _serve_sessions(self, number: int, slot: "_WorkerSlot", started: _CallOnce) -> None:
        """Run one worker until it must end. After its session was lost, the worker continues on a new session."""
        state = self._state
        try:
            while self._is_wanted(number):
                term = state.term
                if state.is_held:  # the application does not wait for a paused listener when it starts
                    state.supervisor.readiness.has(slot)
                    started()
                if state.is_held or state.resting:
                    self._expect_nobody(slot)
                await state.rest()
                if not self._is_wanted(number):
                    break
                try:
                    session = await self._connect(number, slot.lost)
                except MQIError as error:
                    self._not_connected(error, slot)
                    continue
                if session is None:
                    break
                slot.lost = None
                self._sessions[session] = number
                try:
                    await self._work(session, number, term, slot, started)
                except BaseException:
                    session.interrupt()  # the thread of the session can still wait in a get
                    raise
                finally:
                    self._sessions.pop(session, None)
                    await session.close()
                started()  # also after a refusal: this worker tries again later, and delays no other
        finally:
            state.supervisor.release(slot.lost)
            slot.lost = None

    def _expect_nobody(self, slot: "_WorkerSlot") -> None:
        """Let an outage end without this worker and its subscription: the pause of the listener can take hours."""
        self._state.supervisor.release(slot.lost)
        if self._state.subscriber is not None:
            self._state.subscriber.end_suspicion()

    def _is_wanted(self, number: int) -> bool:
        return number < self._state.concurrency and not self._state.is_stopping

    async def _work(self, session: Session, number: int, term: int, slot: "_WorkerSlot", started: _CallOnce) -> None:
        """Run the worker on one session, until the session is lost, the queue refuses a call, or the worker must stop."""
        worker = Worker(self._state, session, number, term)
        try:
            handle = await worker.open()
            await self._check_settings(session, handle)
            started()
            await worker.run(slot.opened)
        except SessionLost as lost:
            self._lose(lost.error, session, slot)
        except MQIError as error:
            self._refused(error, session, slot)

    async def _connect(self, number: int, lost: Session | None) -> Session | None:
        """Return a session, or None if the listener stops before there is a session."""
        owner = f"listener {self._state.spec.name} ({number})"
        try:
            return await self._state.supervisor.connect(owner=owner, before=lost)
        except MQIError:
            if self._state.stopping.is_set():
                return None
            raise

    def _refused(self, error: MQIError, session: Session, slot: "_WorkerSlot") -> None:
        """React to the error of a refused get, open or inquiry as its reason code demands: reconnect, pause, or raise it.

        If an administrator deletes the queue of a running listener, or removes an authority (SET AUTHREC), only this listener
        waits until the administrator restores it.
        """
        state = self._state
        unknown = state.settings.refused(session)
        slot.closed()
        match classify(int(error.reason)):
            case Class.RECONNECT:
                self._lose(error, session, slot)
            case Class.CONFIGURATION if not (unknown or self._has_run(slot)):
                raise error
            case Class.CONFIGURATION | Class.RETRY | Class.REOPEN | Class.WAIT | Class.MESSAGE:
                state.refuse(why_unknown(error) if unknown else str(error), int(error.reason))

    def _not_connected(self, error: MQIError, slot: "_WorkerSlot") -> None:
        """Pause after a refused connection. Other listeners are connected, so only this listener waits.

        Raises the error at the start of the application. Raises it in an outage too, because an outage concerns all listeners.
        """
        if slot.lost is not None or self._state.supervisor.away or not self._has_run(slot):
            raise error
        self._state.refuse(str(error), int(error.reason))

    def _has_run(self, slot: "_WorkerSlot") -> bool:
        return self._started or slot.was_open

    def _lose(self, error: MQIError, session: Session, slot: "_WorkerSlot") -> None:
        slot.lose(error, session)
        if self._state.subscriber is not None:
            self._state.subscriber.suspect()

    async def _check_settings(self, session: Session, handle: ObjectHandle) -> None:
        """Warn once if poison messages of this queue cannot be found or moved. Raises `MQIError` for a lost connection."""
        state, spec = self._state, self._state.spec
        if self._checked:
            return
        self._checked = True
        try:
            settings = await state.settings.inquire(session, handle)
        except MQIError as error:
            if needs_reconnect(error):
                raise
            text = f"{spec.name}: BOTHRESH and BOQNAME cannot be inquired, so the first failed message stops delivery. {error}"
            state.broadcast(Warned(text=text, queue=spec.queue))
            return
        attributes = settings.attributes
        dead_letter_queue = None if settings.dead_letter_queue_unknown else settings.dead_letter_queue
        defined_as = _defined_as(spec, attributes)
        text = queue_warning(spec.queue, attributes, dead_letter_queue, spec.behaviour, defined_as=defined_as)
        if text:
            state.broadcast(Warned(text=text, queue=spec.queue))

    async def _watch(self) -> None:
        """Report stuck handlers until the listener stops."""
        state = self._state
        while not state.stopping.is_set():
            await state.pause(self._until_stuck_s())
            self.report_stuck(state.spec.stuck_after_s)

    def _until_stuck_s(self) -> float:
        """Return the seconds until a handler can count as stuck. So an idle listener need not be checked every second."""
        stuck_after_s, now = self._state.spec.stuck_after_s, self._state.clock.monotonic()
        unreported = (since for delivery, since in self._state.handling.values() if delivery not in self._reported)
        return max(_WATCH_S_MIN, min(unreported, default=now) + stuck_after_s - now)


def _defined_as(spec: ListenerSpec, attributes: QueueAttributes) -> str:
    """Return the object that an administrator must alter: the queue, or the model queue of a subscription."""
    if spec.subscription is None:
        return f"QLOCAL('{attributes.name}')"
    return f"QMODEL('SYSTEM.{'' if spec.subscription.durable else 'N'}DURABLE.MODEL.QUEUE')"
