"""Moves messages off the staging queue when their delay is over: in units of work, exactly once, by any number of them.

Looks at what is due next, waits for it, and lets `delayed_move` get it by MsgId and put it where it is for. What is due at the
same time shares a unit of work, and so a sync of the disk; a message that is refused has one of its own. A message waits on the
staging queue and nowhere else.
Source: IBM, "JMS 2.0 delivery delay", its processor, stopping and starting it, "Failure to put to target queue".
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint

from mqflow.events import DelayProcessorStarted, DelayProcessorStopped, Event, InDoubt, Warned
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import due_in_ms
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.poison.disposition_record import DispositionRecord
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.connection.loop_call import Handover
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.deliver import DelayedMove
from mqflow.runtime.delay.due_next import Seen, StagedMessages, open_staged
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, StagingQueueManager, moment
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.requeuer import INPUT
from mqflow.world import Clock

__all__ = ("DelayProcessor",)

_CHECK_S: Final = 1.0
"""How often the PUT attribute of the staging queue is looked at, and how long to wait before a start is tried again."""
_UNIT_MAX: Final = 32
"""Messages in a unit of work: enough that the commit is no longer what a move costs, few enough to be backed out."""
_UNIT_BYTES: Final = 1_048_576
"""A unit of work with so much in it takes no further message."""


class DelayProcessor:
    """One processor. Runs until `stop`, over as many outages and repairs of the staging queue as there are."""

    def __init__(
        self,
        queue: str,
        supervisor: Supervisor,
        *,
        broadcast: Broadcast,
        clock: Clock,
        application_name: str = "mqflow",
        records: ConnectionRecorder | None = None,
    ) -> None:
        self._queue: Final = queue
        self._supervisor = supervisor
        self._queue_manager = supervisor.queue_manager
        # To deliver is the queue manager's work where it has a staging queue: "no authorization checks are carried out".
        self._user: Final = self._queue_manager.owner if isinstance(self._queue_manager, StagingQueueManager) else ""
        self._broadcast = broadcast
        self._clock = clock
        self._application_name = application_name
        #: Puts a record of what becomes of each message; None for none.
        self._records = records
        #: What it tells, on the session's thread, until the event loop passes it on.
        self._told: list[Event] = []
        if records is not None:
            records.tell = self._told.append
        self._stopping = anyio.Event()
        self._wanted = anyio.Event()
        self._session: Session | None = None
        self._staged: StagedMessages | None = None
        self._stopped_by = ""
        self._was_open = False
        self._checked_at = 0.0

    @property
    def name(self) -> str:
        """What it is, and of which queue."""
        return f"delay processor of {self._queue}"

    def stop(self) -> None:
        """Move no more; what is under way is finished. `run` returns when it is."""
        self._stopping.set()
        self._wanted.set()
        if self._session is not None:
            self._session.interrupt()
        if self._staged is not None:
            self._staged.interrupt()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Return when it was stopped. Started at once: what it needs, it waits for."""
        task_status.started()
        try:
            await self._run()
        finally:
            self._supervisor.readiness.has(self)  # it needs it no more

    async def _run(self) -> None:
        await self._until_staged()
        owner, lost = self.name, None
        while not self._stopping.is_set():
            try:
                self._session = await self._supervisor.connect(self._user, owner=owner, before=lost)
            except MQIError as error:
                if self._stopping.is_set():
                    return
                if self._supervisor.ended:
                    raise
                await self._rest(error)
                continue
            lost = None
            try:
                await self._work(self._session)
            except MQIError as error:
                if classify(int(error.reason)) is Class.RECONNECT:
                    lost = self._session
                    self._supervisor.lost(error, lost)
                    self._supervisor.release(lost)  # it rests first: nobody waits for it
                await self._rest(error)
            finally:
                session, self._session = self._session, None
                with anyio.CancelScope(shield=True):
                    await session.close()

    async def _until_staged(self) -> None:
        """Return when there is something to do: a queue manager in this process says so, and until then costs nothing.

        It says so of its own staging queue; another one is looked at.
        """
        if isinstance(self._queue_manager, StagingQueueManager) and self._queue == EMBEDDED_STAGING_QUEUE:
            handover = Handover()
            self._queue_manager.when_staged(lambda: handover(self._wanted.set))
            await self._wanted.wait()

    async def _rest(self, error: MQIError) -> None:
        """Tell once why it stopped, and wait before the next start. The application is not ready meanwhile."""
        if self._was_open:
            self._supervisor.readiness.lacks(self, self._queue)
        if self._stopped_by != str(error.reason):
            self._stopped_by = str(error.reason)
            self._broadcast(DelayProcessorStopped(queue=self._queue, why=str(error), reason=int(error.reason)))
        await self._pause(_CHECK_S)

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._stopping.wait()

    async def _work(self, session: Session) -> None:
        """Deliver what is due, wait for what is not, until stopped or refused."""
        handle = await session.call(session.openings.hold, self._queue, INPUT)
        await self._check(session)
        move = DelayedMove(session.connection, handle, self._queue, self._clock, self._application_name, self._records)
        manager = self._queue_manager
        on_staged = manager.on_staged if isinstance(manager, StagingQueueManager) else None
        staged = self._staged = await open_staged(session, self._queue, on_staged)
        self._stopped_by = ""
        self._was_open = True
        self._supervisor.readiness.has(self)
        self._broadcast(DelayProcessorStarted(queue=self._queue))
        while not self._stopping.is_set():
            if self._clock.monotonic() - self._checked_at >= _CHECK_S:
                await self._check(session)
            seen = await staged.soonest(moment(self._clock))
            left_ms = _CHECK_S * 1_000 if seen is None else due_in_ms(seen.header, moment(self._clock))
            if seen is None or left_ms > 0:
                await staged.wait(min(left_ms, _CHECK_S * 1_000))
                continue
            await self._deliver(session, move, staged, seen)
            while self._told:
                self._broadcast(self._told.pop(0))
            await checkpoint()  # on a queue manager in memory nothing of it suspends, and others want their turns

    async def _check(self, session: Session) -> None:
        """Raise 2051 while the staging queue is PUT(DISABLED): that is how an operator stops the processor."""
        self._checked_at = self._clock.monotonic()
        attributes = await session.call(inquire_base_queue, session.connection, self._queue)
        if attributes.put_inhibited:
            said = "PUT(DISABLED) on the staging queue stops the delay processor; PUT(ENABLED) starts it"
            raise error_for(Reason.PUT_INHIBITED, "The delay processor", self._queue, detail=said)

    async def _deliver(self, session: Session, move: DelayedMove, staged: StagedMessages, first: Seen) -> None:
        """Move what is due, a bounded number of messages in one unit of work; where one cannot be moved, each in its own."""
        unit: list[Seen] = []
        try:
            if await self._together(session, move, staged, first, unit):
                return
        except MQIError as error:
            self._tell_if_in_doubt(error, unit)
            if classify(int(error.reason)) is Class.RECONNECT:
                raise
        with suppress(MQIError):
            await session.settle(Settlement.BACKOUT)
        for seen in unit:
            await self._alone(session, move, staged, seen)

    async def _together(
        self, session: Session, move: DelayedMove, staged: StagedMessages, first: Seen, unit: list[Seen]
    ) -> bool:
        """Move what is due, told when the unit of work has ended; False where that is to be backed out. Fills in the unit."""
        events: list[Event] = []
        records: list[DispositionRecord] = []
        body_bytes = 0
        seen: Seen | None = first
        while seen is not None:
            unit.append(seen)
            moved = await session.call(move.deliver, seen.message_id, alone=False)
            staged.forget(seen)
            if moved is not None:
                if moved.settlement is Settlement.BACKOUT:
                    return False
                events += moved.events
                records += (moved.record,) if moved.record is not None else ()
                body_bytes += moved.body_bytes
            if len(unit) == _UNIT_MAX or body_bytes >= _UNIT_BYTES or self._stopping.is_set():
                break
            now = moment(self._clock)
            seen = await staged.soonest(now)
            if seen is not None and due_in_ms(seen.header, now) > 0:
                break
        refused = await self._record(session, records)
        if refused is not None and refused.reason == Reason.SYNCPOINT_LIMIT_REACHED:
            self._told.clear()  # alone, each has room for its record
            return False
        await session.settle(Settlement.COMMIT)
        for event in events:
            self._broadcast(event)
        return True

    async def _record(self, session: Session, records: Sequence[DispositionRecord]) -> MQIError | None:
        """Put the records in the open unit of work; return why not."""
        if self._records is None or not records:
            return None
        return await session.call(self._records.put_all, session.connection, records)

    async def _alone(self, session: Session, move: DelayedMove, staged: StagedMessages, seen: Seen) -> None:
        """Move one message that is due, in one unit of work, and tell of it when that has ended."""
        try:
            moved = await session.call(move.deliver, seen.message_id)
            if moved is not None:
                if moved.record is not None and moved.settlement is Settlement.COMMIT:
                    await self._record(session, [moved.record])
                await session.settle(moved.settlement)
                for event in moved.events:
                    self._broadcast(event)
                if moved.settlement is Settlement.BACKOUT and await session.call(
                    move.postpone, seen.message_id, reason=moved.reason
                ):
                    await session.settle(Settlement.COMMIT)
        except MQIError as error:
            self._tell_if_in_doubt(error, (seen,))
            if classify(int(error.reason)) is Class.RECONNECT:
                raise
            with suppress(MQIError):
                await session.settle(Settlement.BACKOUT)
            staged.skip(seen)
            said = f"A delayed message stays on {self._queue} until the processor starts again. {error}"
            self._broadcast(Warned(text=said, queue=self._queue))

    def _tell_if_in_doubt(self, error: MQIError, unit: Sequence[Seen]) -> None:
        if leaves_in_doubt(error):
            ids = tuple(seen.message_id for seen in unit)
            self._broadcast(InDoubt(queue=self._queue, listener="delay processor", reason=int(error.reason), message_ids=ids))
