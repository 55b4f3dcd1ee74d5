"""A listener at work: its workers, each on a session of its own, from the first open to the end of the drain.

Starts them, gives them new sessions after an outage, lets them rest when their queue refuses, names handlers that are stuck.
What happens to a message is the worker's business.
"""

from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskStatus

from mqflow.events import HandlerStuck, ListenerStarted, ListenerStopped, Warned
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener.delivery import Delivery, ListenerSpec
from mqflow.runtime.listener.shared import ListenerState
from mqflow.runtime.listener.worker import SessionLost, Worker
from mqflow.runtime.stack import stack_of

__all__ = ("RunningListener",)

# The loop's time and the clock's may differ by a hair.
_WATCH_S_MIN: Final = 0.05


class _Once:
    """Calls a function the first time it is called."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function: Callable[[], object] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


class _WorkerSlot:
    """Of one worker, over all its sessions: whether it has its queue open, and which session it lost."""

    def __init__(self, supervisor: Supervisor, queue: str) -> None:
        self._supervisor: Final = supervisor
        self._queue: Final = queue
        self.lost: Session | None = None
        self.was_open = False
        self.closed()

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
    """Runs the workers of one queue."""

    def __init__(self, state: ListenerState) -> None:
        self._state: Final = state
        #: In the order they came: a set would stop them in that of their addresses, and no simulated run would repeat itself.
        self._sessions: dict[Session, None] = {}
        self._named: set[Delivery] = set()
        #: Every worker has tried its queue; what is refused from then on, somebody has taken away.
        self._started = False

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"listener {self._state.spec.name}"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Return when the listener was stopped and its workers have ended; started once every worker has tried its queue.

        Raises the `MQIError` of a queue that cannot be opened at the start, and of a connection that cannot be had again.
        """
        state, spec = self._state, self._state.spec
        try:
            await self._warn_without_settings()
            async with anyio.create_task_group() as workers:
                for number in range(1 if spec.strict_order else spec.concurrency):
                    await workers.start(self._serve, number)
                self._started = True
                state.broadcast(ListenerStarted(queue=spec.queue, listener=spec.name, concurrency=spec.concurrency))
                task_status.started()
                workers.start_soon(self._watch)
        finally:
            await state.requeuer.close()
            if state.subscriber is not None:
                await state.subscriber.close()
            state.broadcast(ListenerStopped(queue=spec.queue, listener=spec.name))

    def stop(self) -> None:
        """Get no more; units under way are finished and settled. `run` returns when they are."""
        self._state.stopping.set()
        for session in self._sessions:
            session.interrupt()

    def name_stuck(self, longer_than_s: float) -> None:
        """Tell of each handler that has run longer than that, with its stack; of each delivery once."""
        now = self._state.clock.monotonic()
        for delivery, since in tuple(self._state.handling.values()):
            if now - since < longer_than_s or delivery in self._named:
                continue
            self._named.add(delivery)
            event = HandlerStuck(
                queue=delivery.queue,
                listener=delivery.listener,
                message_id=delivery.got.descriptor.message_id,
                running_s=now - since,
                stack=stack_of(delivery.running),
            )
            self._state.broadcast(event)

    async def _serve(self, number: int, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """One worker's life, over as many sessions as it takes."""
        state, started = self._state, _Once(task_status.started)
        place = _WorkerSlot(state.supervisor, state.spec.queue)
        try:
            while not state.stopping.is_set():
                await state.rest()
                try:
                    session = await self._connect(number, place.lost)
                except MQIError as error:
                    self._not_connected(error, place)
                    continue
                if session is None:
                    break
                place.lost = None
                self._sessions[session] = None
                try:
                    await self._work(session, number, place, started)
                finally:
                    self._sessions.pop(session, None)
                    with anyio.CancelScope(shield=True):
                        await session.close()
                started()  # what refuses it now may let it in later: the others need not wait for that
        finally:
            state.supervisor.release(place.lost)
        started()

    async def _work(self, session: Session, number: int, place: "_WorkerSlot", started: _Once) -> None:
        """Work on one session, until it is lost, or refused what it needs, or the listener stops."""
        worker = Worker(self._state, session, number)
        try:
            await worker.open()
            started()
            await worker.run(place.opened)
        except SessionLost as lost:
            self._lose(lost.error, session, place)
        except MQIError as error:
            self._refused(error, session, place)

    async def _connect(self, number: int, lost: Session | None) -> Session | None:
        """Return a session, or None where the listener stops while there is none to be had."""
        owner = f"listener {self._state.spec.name} ({number})"
        try:
            return await self._state.supervisor.connect(owner=owner, before=lost)
        except MQIError:
            if self._state.stopping.is_set():
                return None
            raise

    def _refused(self, error: MQIError, session: Session, place: "_WorkerSlot") -> None:
        """Decide by the reason what a refused get or open means for the listener.

        What somebody takes away from a listener that runs (SET AUTHREC, DELETE) holds up this one only, until it is given back.
        """
        state = self._state
        place.closed()
        match classify(int(error.reason)):
            case Class.RECONNECT:
                self._lose(error, session, place)
            case Class.CONFIGURATION if not self._has_run(place):
                raise error
            case Class.CONFIGURATION | Class.RETRY | Class.REOPEN | Class.WAIT | Class.MESSAGE:
                state.refuse(str(error), int(error.reason))

    def _not_connected(self, error: MQIError, place: "_WorkerSlot") -> None:
        """As `_refused`, for a connection after a refusal: while the others have theirs, this holds up this listener only.

        Raises the error at the start, and in an outage, which is everybody's.
        """
        if place.lost is not None or self._state.supervisor.away or not self._has_run(place):
            raise error
        self._state.refuse(str(error), int(error.reason))

    def _has_run(self, place: "_WorkerSlot") -> bool:
        return self._started or place.was_open

    def _lose(self, error: MQIError, session: Session, place: "_WorkerSlot") -> None:
        place.lose(error, session)
        if self._state.subscriber is not None:
            self._state.subscriber.suspect()

    async def _warn_without_settings(self) -> None:
        """Warn where a poison message of this queue would be redelivered for ever, or would have nowhere of its own to go."""
        state, spec = self._state, self._state.spec
        session = await self._connect(0, None)
        if session is None:
            return
        try:
            await state.queue()
            settings = await state.settings.inquire(session)
        except MQIError as error:
            if error.reason == Reason.UNKNOWN_OBJECT_NAME:  # so says the worker's open, which comes next
                return
            state.broadcast(Warned(text=f"{spec.name}: BOTHRESH and BOQNAME cannot be inquired. {error}", queue=spec.queue))
            return
        finally:
            await session.close()
        attributes = settings.attributes
        if not attributes.backout_threshold:
            text = (
                f"{spec.queue} has no backout threshold, so a message that always fails is redelivered for ever. "
                f"ALTER {_defined_as(spec, attributes)} BOTHRESH(3) BOQNAME('...') ends that, "
                "or Backout(threshold=3, queue=...)."
            )
            state.broadcast(Warned(text=text, queue=spec.queue))
        elif not attributes.backout_requeue_queue and not settings.dead_letter_queue:
            text = (
                f"{spec.queue} has a backout threshold but no backout requeue queue, and the queue manager has no dead-letter "
                f"queue: a poison message stays where it is and holds the listener up. "
                f"ALTER {_defined_as(spec, attributes)} BOQNAME('...') changes that."
            )
            state.broadcast(Warned(text=text, queue=spec.queue))

    async def _watch(self) -> None:
        """Name handlers that are stuck, until the listener stops."""
        state = self._state
        while not state.stopping.is_set():
            await state.pause(self._until_stuck_s())
            self.name_stuck(state.spec.stuck_after_s)

    def _until_stuck_s(self) -> float:
        """Return how long nothing can be stuck: a thousand listeners that handle nothing are not looked after every second."""
        stuck_after_s, now = self._state.spec.stuck_after_s, self._state.clock.monotonic()
        unnamed = (since for delivery, since in self._state.handling.values() if delivery not in self._named)
        return max(_WATCH_S_MIN, min(unnamed, default=now) + stuck_after_s - now)


def _defined_as(spec: ListenerSpec, attributes: QueueAttributes) -> str:
    """Return what an administrator alters: the queue, or the model that a subscription's is made from by default."""
    if spec.subscription is None:
        return f"QLOCAL('{attributes.name}')"
    return f"QMODEL('SYSTEM.{'' if spec.subscription.durable else 'N'}DURABLE.MODEL.QUEUE')"
