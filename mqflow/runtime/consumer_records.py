"""Puts records of the deliveries and moves of a synchronous consumer.

A record is put in the open unit of work, or after that unit was backed out. This module remembers the messages of the unit
until the unit ends, because their outcome is unknown until then. It settles only units of work that contain only records, and
makes no decision.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from mqflow.events import Event
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison.disposition import DeadLetter, Discard, Requeue, Settlement, Undecodable
from mqflow.policy.poison.disposition_record import EXC_MESSAGE_CHARS_MAX, DispositionRecord, RecordOutcome
from mqflow.runtime.connection.session import Session
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.listener.poison_mover import Disposal
from mqflow.runtime.listener.worker_records import HEARTBEAT_S
from mqflow.verbs import Got
from mqflow.world import Clock

__all__ = ("ConsumerRecords",)


class _InUnit(Struct):
    """A message in the open unit of work."""

    got: Got
    got_us: int
    #: True if the caller received the message; false for a poison message that was moved.
    delivered: bool = True


class ConsumerRecords:
    """Puts the records of one consumer."""

    def __init__(
        self, records: ConnectionRecorder, queue: str, name: str, *, clock: Clock, broadcast: Callable[[Event], None]
    ) -> None:
        self._records: Final = records
        self._queue: Final = queue
        self._name: Final = name
        self._clock: Final = clock
        self._broadcast: Final = broadcast
        #: The events that the session's thread has made. The event loop passes them on later.
        self._events: list[Event] = []
        records.notify = self._events.append
        self._unit = 0
        self._in_unit: list[_InUnit] = []
        self._heartbeat_at = clock.monotonic()
        #: The attributes of the queue; the consumer sets them after it has inquired them.
        self.attributes: QueueAttributes | None = None

    def got(self, got: Got) -> None:
        """Record that the consumer has now got this message."""
        self._unit += not self._in_unit
        self._in_unit.append(_InUnit(got, self._records.now_us()))

    async def record_move(self, session: Session, disposal: Disposal, undecodable: Undecodable | None) -> None:
        """Record the move of the message that was got last, or its discard. The record is put in the open unit of work.

        `undecodable` is set if the message could not be decoded. It is None if the message was backed out too often.
        """
        disposition = disposal.disposition
        target: str | None = None
        match disposition:
            case Requeue(queue=queue):
                outcome, target = RecordOutcome.BACKED_OUT, queue
            case DeadLetter(queue=queue):
                outcome, target = RecordOutcome.DEAD_LETTERED, queue
            case Discard():
                outcome = RecordOutcome.DISCARDED
            case _:  # the message is not moved: the caller receives it
                return
        last = self._in_unit[-1]
        last.delivered = False
        refusals = [attempt.reason for attempt in disposal.attempts if attempt.reason]
        reason = disposition.reason if isinstance(disposition, DeadLetter) else next(iter(refusals), None)
        error: dict[str, str] = {}
        if undecodable is not None:
            error = {"exc_class": undecodable.error, "exc_message": undecodable.text[:EXC_MESSAGE_CHARS_MAX]}
        record = self._record(session, last, outcome, target_queue=target, mqrc=reason, **error)
        await self._put(session, [record])

    async def record_commit(self, session: Session) -> None:
        """Record that the caller has handled its messages. The records are put in the unit of work that is committed next."""
        made = [self._record(session, each, RecordOutcome.COMMITTED) for each in self._in_unit if each.delivered]
        if made:
            await self._put(session, made)

    async def record_backout(self, session: Session) -> None:
        """Record that the messages of the last unit are on their queue again, and that this unit has ended.

        The records are put in a separate unit of work.
        """
        made = [
            self._record(session, each, RecordOutcome.ROLLED_BACK if each.delivered else RecordOutcome.LEFT)
            for each in self._in_unit
        ]
        self.ended()
        if made and await self._put(session, made) is None:
            await self._commit(session)

    def ended(self) -> None:
        """Record that the unit of work has ended."""
        self._in_unit.clear()

    @property
    def open(self) -> bool:
        """True if a message is in the unit of work."""
        return bool(self._in_unit)

    async def heartbeat(self, session: Session) -> None:
        """Record once a minute that this consumer is alive. Call it only while no unit of work is open."""
        now = self._clock.monotonic()
        if now < self._heartbeat_at:
            return
        self._heartbeat_at = now + HEARTBEAT_S
        beat = self._records.make(session.connection, RecordOutcome.HEARTBEAT, None, queue=self._queue)
        await self._put(session, [beat], in_unit_of_work=False)

    # `more` has further fields of the record, of any type.
    def _record(self, session: Session, each: _InUnit, outcome: RecordOutcome, **more: Any) -> DispositionRecord:
        got, known = each.got, self.attributes
        return self._records.make(
            session.connection,
            outcome,
            got.descriptor,
            queue=self._queue,
            handler=self._name,
            uow_id=f"{self._records.source}/{self._unit}",
            msg_len=got.data_bytes,
            get_ts=each.got_us,
            done_ts=self._records.now_us() if each.delivered else None,
            backout_count=got.descriptor.backout_count,
            bothresh=None if known is None else known.backout_threshold,
            boqname=None if known is None else known.backout_requeue_queue,
            **more,
        )

    async def _put(
        self, session: Session, made: Sequence[DispositionRecord], *, in_unit_of_work: bool = True
    ) -> MQIError | None:
        put = self._records.put_all
        error = await session.call(put, session.connection, made, in_unit_of_work=in_unit_of_work)
        self._pass_on()
        return error

    def _pass_on(self) -> None:
        while self._events:
            self._broadcast(self._events.pop(0))

    async def _commit(self, session: Session) -> None:
        try:
            await session.settle(Settlement.COMMIT)
        except MQIError as error:  # only records are lost, and the silver tables show the gap
            self._records.warn(error)
            self._pass_on()
