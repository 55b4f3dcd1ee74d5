"""Moves each message from the staging queue to its target exactly once, when its delay is over. Several processors can run.

The processor finds the message that is due next, and waits until it is due. Then `DelayedMove` gets the message by its MsgId
and puts it on its target. Messages that are due at the same time share one unit of work, and therefore one write to the disk. A
refused message has a unit of work of its own. Messages wait only on the staging queue, not in memory.
Source: IBM, "JMS 2.0 delivery delay": the parts about its processor, and "Failure to put to target queue".
"""

from collections.abc import Sequence
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
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt, needs_reconnect
from mqflow.runtime.connection.loop_call import LoopCaller
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.delayed_move import DelayedMove, check_alternate_user
from mqflow.runtime.delay.due_messages import Seen, StagedMessages, open_staged
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, StagingQueueManager, moment
from mqflow.runtime.hooks import Broadcast
from mqflow.world import Clock

__all__ = ("DelayProcessor",)

_CHECK_S: Final = 1.0
"""The seconds between two inquiries of the staging queue's PUT attribute, and before a new attempt to start or to move."""
_REFUSED_MAX: Final = 1_000
"""With this number of messages that wait for a new attempt, the processor stops, and starts again after `_CHECK_S`."""
_AGAIN: Final = frozenset({Class.RETRY, Class.WAIT})
"""The classes of errors after which a new attempt can move the message."""
_UNIT_MAX: Final = 32
"""The largest number of messages in a unit of work. A large unit makes the commit cheap for each message, but not a backout."""
_UNIT_BYTES: Final = 1_048_576
"""A unit of work with this number of bytes gets no further message."""


class DelayProcessor:
    """Runs one processor until `stop`. It continues after an outage, and after the staging queue was repaired."""

    def __init__(
        self,
        queue: str,
        supervisor: Supervisor,
        *,
        broadcast: Broadcast,
        clock: Clock,
        application_name: str = "mqflow",
        records: ConnectionRecorder | None = None,
        own_authority: bool = False,
    ) -> None:
        """Make a processor. With `own_authority`, it puts with the authority of its own user and not of the sender.

        On the staging queue of an embedded queue manager it always does so, because the queue manager has already checked the
        authority of each sender.
        """
        self._queue: Final = queue
        self._own_authority = own_authority
        self._supervisor = supervisor
        self._queue_manager = supervisor.queue_manager
        # With a staging queue of its own, the queue manager itself delivers, and IBM says: "no authorization checks are carried
        # out".
        self._user: Final = self._queue_manager.owner if isinstance(self._queue_manager, StagingQueueManager) else ""
        self._broadcast = broadcast
        self._clock = clock
        self._application_name = application_name
        #: Puts a record of the outcome of each message; None for no records.
        self._records = records
        #: The events that the session's thread has made. The event loop passes them on later.
        self._events: list[Event] = []
        if records is not None:
            records.notify = self._events.append
        self._stopping = anyio.Event()
        self._wanted = anyio.Event()
        self._session: Session | None = None
        self._staged: StagedMessages | None = None
        #: The messages that wait for a new attempt, by MsgId on the staging queue; the next one to try is the first.
        self._refused: dict[bytes, Seen] = {}
        self._stopped_by = ""
        self._was_open = False
        self._warned = False
        self._checked_at = 0.0

    @property
    def name(self) -> str:
        """The name of the processor and its queue, for people."""
        return f"delay processor of {self._queue}"

    def stop(self) -> None:
        """Stop moving messages. The open unit of work is settled, then `run` returns."""
        self._stopping.set()
        self._wanted.set()
        if self._session is not None:
            self._session.interrupt()
        if self._staged is not None:
            self._staged.interrupt()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Move due messages until `stop`. The processor counts as started immediately, and waits for its queue to open."""
        task_status.started()
        try:
            await self._run()
        finally:
            self._supervisor.readiness.has(self)  # at the end, the application does not need the queue any more

    async def _run(self) -> None:
        await self._wait_until_staged()
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
                if needs_reconnect(error):
                    lost = self._session
                    self._supervisor.lost(error, lost)
                    self._supervisor.release(lost)  # the processor pauses now, and the outage must not wait for it
                await self._rest(error)
            finally:
                session, self._session = self._session, None
                await session.close()

    async def _wait_until_staged(self) -> None:
        """Wait until the queue manager reports a staged message. Until then, the processor uses no processor time.

        Only a queue manager in this process reports this, and only for its own staging queue. Otherwise return immediately.
        """
        if isinstance(self._queue_manager, StagingQueueManager) and self._queue == EMBEDDED_STAGING_QUEUE:
            loop_caller = LoopCaller()
            self._queue_manager.when_staged(lambda: loop_caller(self._wanted.set))
            await self._wanted.wait()

    async def _rest(self, error: MQIError) -> None:
        """Report once why the processor has stopped, and wait before the next start. Meanwhile the application is not ready."""
        if self._was_open:
            self._supervisor.readiness.lacks(self, self._queue)
        if self._stopped_by != str(error.reason):
            self._stopped_by = str(error.reason)
            self._broadcast(DelayProcessorStopped(queue=self._queue, why=str(error), reason=int(error.reason)))
        with anyio.move_on_after(_CHECK_S):
            await self._stopping.wait()

    async def _work(self, session: Session) -> None:
        """Deliver messages when they are due, until the processor is stopped or a call is refused."""
        handle = await session.call(session.open_objects.hold, self._queue, INPUT)
        await self._check(session)
        as_sender = await self._puts_as_sender(session)
        move = DelayedMove(
            session.connection, handle, self._queue, self._clock, self._application_name, self._records, as_sender
        )
        manager = self._queue_manager
        on_staged = manager.on_staged if isinstance(manager, StagingQueueManager) else None
        staged = self._staged = await open_staged(session, self._queue, on_staged)
        self._refused.clear()  # `staged` finds these messages again
        started = False
        while not self._stopping.is_set():
            if self._clock.monotonic() - self._checked_at >= _CHECK_S:
                await self._check(session)
                await self._deliver_refused(session, move, staged)
            seen = await staged.soonest(moment(self._clock))
            if not started:  # not before: with GET(DISABLED) all opens succeed, and only this look is refused
                started = True
                self._started()
            left_ms = _CHECK_S * 1_000 if seen is None else due_in_ms(seen.header, moment(self._clock))
            if seen is None or left_ms > 0:
                await staged.wait(min(left_ms, _CHECK_S * 1_000))
                continue
            await self._deliver(session, move, staged, seen)
            self._pass_on()
            await checkpoint()  # let other tasks run: on a queue manager in memory, no call above suspends this task

    def _pass_on(self) -> None:
        while self._events:
            self._broadcast(self._events.pop(0))

    def _started(self) -> None:
        self._stopped_by = ""
        self._was_open = True
        self._supervisor.readiness.has(self)
        self._broadcast(DelayProcessorStarted(queue=self._queue))

    async def _puts_as_sender(self, session: Session) -> bool:
        """Return whether each message is put with the authority of its sender. Raise 2035 if this user may not do that."""
        if self._queue == EMBEDDED_STAGING_QUEUE:
            return False
        if not self._own_authority:
            if not self._user:  # the owner of an embedded queue manager has every authority
                await session.call(check_alternate_user, session.connection, self._queue)
            return True
        if not self._warned:
            self._warned = True
            text = (
                f"The delay processor of {self._queue} puts with its own authority. So each user with PUT on {self._queue} "
                "can reach every queue that the processor may put to."
            )
            self._broadcast(Warned(text=text, queue=self._queue))
        return False

    async def _check(self, session: Session) -> None:
        """Raise 2051 if the staging queue is PUT(DISABLED). With this attribute, an operator stops the processor."""
        self._checked_at = self._clock.monotonic()
        attributes = await session.call(inquire_base_queue, session.connection, self._queue)
        if attributes.put_inhibited:
            detail = "PUT(DISABLED) on the staging queue stops the delay processor; PUT(ENABLED) starts it"
            raise error_for(Reason.PUT_INHIBITED, "The delay processor", self._queue, detail=detail)

    async def _deliver(self, session: Session, move: DelayedMove, staged: StagedMessages, first: Seen) -> None:
        """Move the due messages in one unit of work. If that fails, move each message in a unit of work of its own."""
        unit: list[Seen] = []
        try:
            if await self._deliver_unit(session, move, staged, first, unit):
                return
        except MQIError as error:
            self._report_if_in_doubt(error, unit)
            if needs_reconnect(error):
                raise
        # If the backout fails, the messages are still in the unit of work, and a later commit must not include them.
        await session.settle(Settlement.BACKOUT)
        for seen in unit:
            await self._deliver_one(session, move, staged, seen)

    async def _deliver_unit(
        self, session: Session, move: DelayedMove, staged: StagedMessages, first: Seen, unit: list[Seen]
    ) -> bool:
        """Move the due messages, list them in `unit`, commit, and report them. Return False if the caller must back out."""
        events: list[Event] = []
        records: list[DispositionRecord] = []
        body_bytes = 0
        seen: Seen | None = first
        while seen is not None:
            unit.append(seen)
            moved = await session.call(move.deliver, seen.message_id, own_unit=False)
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
            self._events.clear()  # the records did not fit; in a unit of its own, each message has room
            return False
        await session.settle(Settlement.COMMIT)
        for event in events:
            self._broadcast(event)
        return True

    async def _record(self, session: Session, records: Sequence[DispositionRecord]) -> MQIError | None:
        """Put the records in the open unit of work. If a put is refused, return its error."""
        if self._records is None or not records:
            return None
        return await session.call(self._records.put_all, session.connection, records)

    async def _deliver_refused(self, session: Session, move: DelayedMove, staged: StagedMessages) -> None:
        """Try again to move the messages in `_refused`, until one of them is refused again. The next time, this one is last."""
        for seen in tuple(self._refused.values()):
            await self._deliver_one(session, move, staged, seen)
            self._pass_on()
            if seen.message_id in self._refused or self._stopping.is_set():
                return

    async def _deliver_one(self, session: Session, move: DelayedMove, staged: StagedMessages, seen: Seen) -> None:
        """Move one due message in a unit of work of its own. After the settlement, report the result."""
        try:
            moved = await session.call(move.deliver, seen.message_id)
            if moved is not None:
                if moved.record is not None:
                    await self._record(session, [moved.record])
                await session.settle(moved.settlement)
                for event in moved.events:
                    self._broadcast(event)
                if moved.settlement is Settlement.BACKOUT and await session.call(
                    move.postpone, seen.message_id, reason=moved.reason
                ):
                    await session.settle(Settlement.COMMIT)
            self._refused.pop(seen.message_id, None)
        except MQIError as error:
            self._report_if_in_doubt(error, (seen,))
            if needs_reconnect(error):
                raise
            await session.settle(Settlement.BACKOUT)
            self._leave(staged, seen, error)

    def _leave(self, staged: StagedMessages, seen: Seen, error: MQIError) -> None:
        """Leave the message on the staging queue and report why. Wait for a new attempt if one can move the message.

        While messages wait, further ones are not reported. Raises `error` if too many wait. Then the next start finds them all.
        """
        staged.skip(seen)
        waiting = bool(self._refused)
        self._refused.pop(seen.message_id, None)
        again = classify(int(error.reason)) in _AGAIN
        if again:
            self._refused[seen.message_id] = seen
        if not (again and waiting):
            when = "; the processor tries again every second" if again else " until the processor starts again"
            self._broadcast(Warned(text=f"A delayed message stays on {self._queue}{when}. {error}", queue=self._queue))
        if len(self._refused) >= _REFUSED_MAX:
            raise error

    def _report_if_in_doubt(self, error: MQIError, unit: Sequence[Seen]) -> None:
        if leaves_in_doubt(error):
            ids = tuple(seen.sent_message_id for seen in unit)
            self._broadcast(InDoubt(queue=self._queue, listener="delay processor", reason=int(error.reason), message_ids=ids))
