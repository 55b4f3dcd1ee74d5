"""Puts a record of each decision of a worker on a queue, in the unit of work of the decision, which commits both or neither.

The record of a rollback is put after the backout, which would otherwise remove the record. A crash between the backout and the
put loses the record; the BackoutCount of the next delivery shows this. If a record is refused, the hooks get a warning, and the
worker continues without the record. Records that are made together share a message if they fit.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.events import Warned
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import PutOption
from mqflow.policy.poison import disposition, disposition_record
from mqflow.policy.poison.disposition_record import (
    EXC_MESSAGE_CHARS_MAX,
    DispositionRecord,
    RecordOutcome,
    in_order,
    put_time_us,
)
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.unit import BackOut, DisposedDelivery, Unit

__all__ = ("HEARTBEAT_S", "Recorder")

HEARTBEAT_S: Final = 60.0
"""The seconds between the heartbeats of an idle worker. A heartbeat shows that there is no earlier record to come."""
_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_OUTCOMES: Final[dict[type[disposition.Disposition], RecordOutcome]] = {
    disposition.Requeue: RecordOutcome.BACKED_OUT,
    disposition.DeadLetter: RecordOutcome.DEAD_LETTERED,
    disposition.Discard: RecordOutcome.DISCARDED,
    disposition.Return: RecordOutcome.LEFT,
    disposition.Deliver: RecordOutcome.LEFT,
}


class _Failure(Struct, frozen=True):
    """The failure of a handling, as the fields of a record."""

    exc_class: str | None = None
    exc_message: str | None = None
    exc_fingerprint: str | None = None


_NO_FAILURE: Final = _Failure()


class Recorder:
    """Makes and puts the records of one worker's decisions."""

    def __init__(self, state: ListenerState, session: Session, queue: str, number: int) -> None:
        self._state: Final = state
        self._session: Final = session
        self._queue: Final = queue
        self._consumer: Final = f"{state.application_name}/{state.spec.name}#{number}"
        self._connection: Final = f"{int(state.random.random() * 2**48):012x}"
        self._unit = self._ordinal = self._got_us = 0
        self._heartbeat_at = state.clock.monotonic()
        self._refused = False

    def got(self) -> None:
        """Record that the worker has now got a unit of work."""
        self._unit += 1
        self._ordinal = 0
        self._got_us = self._now_us()

    async def committed(self, deliveries: Sequence[Delivery]) -> None:
        """Record that these messages were handled. The records are put in their unit of work, which is committed next."""
        await self._put(self._records(deliveries, RecordOutcome.COMMITTED, lambda _: _NO_FAILURE))

    async def rolled_back(self, unit: Unit, step: BackOut) -> None:
        """Record, in a separate unit of work, that the messages of this unit were backed out, or that one of them stays."""
        failures = dict.fromkeys(step.failed or unit.deliveries, step.outcome)
        failures |= {each.delivery: each.outcome for each in unit.ended}
        left = step.left.delivery if step.left is not None else None
        rolled_back = [delivery for delivery in unit.deliveries if delivery is not left]
        records = self._records(rolled_back, RecordOutcome.ROLLED_BACK, lambda delivery: _failure(failures.get(delivery)))
        if step.left is not None:
            records = [*records, self._disposed(step.left)]
        await self._put(records)
        await self._commit()

    async def deferred(
        self, delivery: Delivery, outcome: disposition.Outcome, after_s: float, target_queue: str, *, since: float
    ) -> None:
        """Record that the message is delivered again `after_s` seconds after `since`, the wall clock just before it is staged.

        The record is put in the unit of work that stages the message. Its due time is calculated from whole milliseconds, like
        that of the staged message. Otherwise a message that comes on time would seem to come early.
        """
        due_us = int(since * 1_000) * 1_000 + round(after_s * 1_000_000)
        record = self._record(delivery, RecordOutcome.DEFERRED, _failure(outcome))
        await self._put([replace(record, delay_req_ms=round(after_s * 1_000), due_ts=due_us, target_queue=target_queue)])

    async def disposed(self, disposed: DisposedDelivery) -> None:
        """Record the disposition of a poison message in the unit of work of its move."""
        await self._put([self._disposed(disposed)])

    def _disposed(self, disposed: DisposedDelivery) -> DispositionRecord:
        disposal = disposed.disposal
        last = disposal.disposition
        refusals = [attempt.reason for attempt in disposal.attempts if attempt.reason]
        reason = last.reason if isinstance(last, disposition.DeadLetter) else next(iter(refusals), None)
        target = last.queue if isinstance(last, disposition.Requeue | disposition.DeadLetter) else None
        record = self._record(disposed.delivery, _OUTCOMES[type(last)], _failure(disposed.outcome))
        return replace(record, target_queue=target, mqrc=reason)

    async def heartbeat(self, *, own_unit: bool) -> None:
        """Record once a minute that this worker is alive.

        With `own_unit`, commit the record here, because there is no open unit of work that will be committed.
        """
        now = self._state.clock.monotonic()
        if now < self._heartbeat_at:
            return
        self._heartbeat_at = now + HEARTBEAT_S
        self._ordinal += 1
        manager = self._state.supervisor.queue_manager_name
        beat = DispositionRecord(
            disp_id=f"{manager}/{self._connection}/{self._unit}/{self._ordinal}",
            event_ts=self._now_us(),
            qmgr=manager,
            queue=self._state.spec.queue,
            consumer=self._consumer,
            outcome=RecordOutcome.HEARTBEAT,
        )
        await self._put([beat])
        if own_unit:
            await self._commit()

    # -- making records

    def _record(self, delivery: Delivery, outcome: RecordOutcome, failure: _Failure) -> DispositionRecord:
        return self._records((delivery,), outcome, lambda _: failure)[0]

    def _records(
        self, deliveries: Sequence[Delivery], outcome: RecordOutcome, failure_of: Callable[[Delivery], _Failure]
    ) -> Sequence[DispositionRecord]:
        """Return the records of deliveries that have just ended. One loop makes all values, because this runs for each message.

        The values are in the order of the fields of `DispositionRecord`.
        """
        state, now_us = self._state, self._now_us()
        spec, known = state.spec, state.settings.known
        settings = known.attributes if known else None
        threshold, backout_queue = (settings.backout_threshold, settings.backout_requeue_queue) if settings else (None, None)
        manager = state.supervisor.queue_manager_name
        unit = f"{self._connection}/{self._unit}"
        made = []
        for delivery in deliveries:
            got, failure = delivery.got, failure_of(delivery)
            md = got.descriptor
            self._ordinal += 1
            record = in_order(
                1,  # the lowest version that has all these fields
                f"{manager}/{unit}/{self._ordinal}",
                now_us,
                manager,
                spec.queue,
                spec.name,
                self._consumer,
                unit,
                md.message_id,
                md.correlation_id,
                md.group_id,
                md.message_type,
                md.format,
                md.ccsid,
                md.encoding,
                md.persistence,
                md.priority,
                None if md.expiry_tenths < 0 else md.expiry_tenths * 100,
                got.data_bytes,
                put_time_us(md.put_date, md.put_time),
                md.put_application_name,
                md.put_application_type,
                md.user_identifier,
                md.reply_to_queue,
                md.reply_to_queue_manager,
                self._got_us,
                round(delivery.ended_at * 1_000_000) if delivery.ended_at else None,
                md.backout_count,
                threshold,
                backout_queue,
                outcome,
                None,  # target_queue
                None,  # mqrc
                failure.exc_class,
                failure.exc_fingerprint,
                failure.exc_message,
                None,  # delay_req_ms
                None,  # due_ts
                None,  # redrive_id
                None,  # redrive_of
                delivery.trace_id or None,
            )
            made.append(record)
        return made

    def _now_us(self) -> int:
        return round(self._state.clock.wall() * 1_000_000)

    # -- putting records

    async def _put(self, records: Sequence[DispositionRecord]) -> None:
        session = self._session
        try:
            for data in disposition_record.messages_of(records):
                await session.call(session.open_objects.put, self._queue, disposition_record.DESCRIPTOR, data, _PUT)
        except MQIError as error:
            # The next settlement finds a lost connection. After any other error, the message is more important than its record.
            if not self._refused:
                text = f"{self._state.spec.name}: decisions are not recorded. {error}"
                self._state.broadcast(Warned(text=text, queue=self._queue))
            self._refused = True
        else:
            self._refused = False

    async def _commit(self) -> None:
        try:
            await self._session.settle(disposition.Settlement.COMMIT)
        except MQIError as error:
            # Only records are lost, and the silver tables show the gap. The next call finds a lost connection.
            self._state.broadcast(Warned(text=f"{self._state.spec.name}: a record may be missing. {error}", queue=self._queue))


def _failure(outcome: disposition.Outcome | None) -> _Failure:
    match outcome:
        case disposition.Failed(error=error, text=text) | disposition.Undecodable(error=error, text=text):
            return _Failure(error, text[:EXC_MESSAGE_CHARS_MAX], _fingerprint(error, text))
        case disposition.Interrupted(why=why):
            return _Failure("Interrupted", why, _fingerprint("Interrupted", why))
        case None | disposition.Completed():
            return _NO_FAILURE
        case _:
            assert_never(outcome)


def _fingerprint(error: str, text: str) -> str:
    """Return a hash of the class and of the text without numbers and quoted parts, so that equal failures have equal hashes."""
    import hashlib  # noqa: PLC0415 - the import loads OpenSSL, and few applications record failures

    normal = re.sub(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+|'[^']*'|\"[^\"]*\"", "#", text)
    return hashlib.sha256(f"{error}\0{normal}".encode(errors="replace")).hexdigest()
