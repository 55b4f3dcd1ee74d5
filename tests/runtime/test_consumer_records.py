"""The records of a synchronous consumer: one for each message of its unit of work, in or after that unit."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Attempt, Warned
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Discard, Disposition, Requeue, Return, Undecodable
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.consumer_records import ConsumerRecords
from mqflow.runtime.listener.poison_mover import Disposal
from mqflow.testing.faults import Fault, Faults
from mqflow.verbs import Got
from tests.runtime.recorded import NOW_US, ORDER, Recorded

pytestmark = pytest.mark.anyio

GOT = Got(descriptor=ORDER, body=b"text", data_bytes=4)


class Consumer:
    """A consumer's records, and the session of its unit of work."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        connection: Any = recorded.connection  # an embedded connection, which has all verbs
        self.session = InlineSession(connection)
        self.records = ConsumerRecords(recorded.recorder, "IN", "book", clock=recorded.clock, broadcast=recorded.events.append)
        self.records.attributes = QueueAttributes(name="IN", backout_threshold=5, backout_requeue_queue="BAD")

    def put(self) -> list[DispositionRecord]:
        """Return the records that other connections see, in order."""
        return [record for message in self.recorded.messages() for record in message]

    def known(self, outcome: RecordOutcome, number: int = 1, unit: int = 1, **more: Any) -> DispositionRecord:
        """Return the record of a delivery without the fields of the descriptor."""
        source = self.recorded.recorder.source
        return DispositionRecord(
            disp_id=f"QM1/{source}/{number}", event_ts=NOW_US, qmgr="QM1", queue="IN", handler="book", consumer="orders/mover",
            uow_id=f"{source}/{unit}", msg_id=ORDER.message_id, msg_len=4, get_ts=NOW_US, backout_count=3, bothresh=5,
            boqname="BAD", outcome=outcome, **more,
        )  # fmt: skip


def of_delivery(record: DispositionRecord) -> DispositionRecord:
    """Return the record without the fields that only the descriptor decides."""
    described = (
        "correl_id", "group_id", "msg_type", "format", "ccsid", "encoding", "persistence", "priority", "expiry_left_ms",
    )  # fmt: skip
    context = ("put_ts", "put_appl_name", "put_appl_type", "user_id", "reply_q", "reply_qm")
    return replace(record, **dict.fromkeys((*described, *context)))


@pytest.fixture
async def consumer() -> AsyncIterator[Consumer]:
    queue_manager = EmbeddedQueueManager("QM1")
    recorded = Recorded(queue_manager)
    recorded.define()
    yield Consumer(recorded)
    queue_manager.close()


async def test_a_committed_message_has_a_record_in_its_unit_of_work(consumer: Consumer) -> None:
    consumer.records.got(GOT)
    await consumer.records.record_commit(consumer.session)
    early = consumer.put()
    consumer.session.connection.commit()

    assert [] == early
    assert [consumer.known(RecordOutcome.COMMITTED, done_ts=NOW_US)] == [of_delivery(each) for each in consumer.put()]


async def test_each_unit_of_work_has_a_number_of_its_own(consumer: Consumer) -> None:
    for count in (2, 1):
        for _ in range(count):
            consumer.records.got(GOT)
        await consumer.records.record_commit(consumer.session)
        assert consumer.records.open
        consumer.records.ended()
        assert not consumer.records.open
    await consumer.records.record_commit(consumer.session)  # an empty unit has no record
    consumer.session.connection.commit()

    source = consumer.recorded.recorder.source
    assert [f"{source}/1", f"{source}/1", f"{source}/2"] == [each.uow_id for each in consumer.put()]


async def test_a_message_that_was_backed_out_has_a_record_that_is_committed_at_once(consumer: Consumer) -> None:
    consumer.records.got(GOT)
    consumer.session.connection.backout()
    await consumer.records.record_backout(consumer.session)

    assert [consumer.known(RecordOutcome.ROLLED_BACK, done_ts=NOW_US)] == [of_delivery(each) for each in consumer.put()]
    assert not consumer.records.open


UNDECODABLE = Undecodable("ValueError", "x" * 600)
MOVES = [
    pytest.param(Requeue("BAD"), 0, None, RecordOutcome.BACKED_OUT, {"target_queue": "BAD"}, id="to the backout requeue queue"),
    pytest.param(DeadLetter("DLQ", 2362), 2053, None, RecordOutcome.DEAD_LETTERED, {"target_queue": "DLQ", "mqrc": 2362},
        id="to the DLQ"),
    pytest.param(Discard("asked"), 2053, None, RecordOutcome.DISCARDED, {"mqrc": 2053}, id="discarded after a refusal"),
    pytest.param(Requeue("BAD"), 0, UNDECODABLE, RecordOutcome.BACKED_OUT,
        {"target_queue": "BAD", "exc_class": "ValueError", "exc_message": "x" * 512}, id="undecodable"),
]  # fmt: skip


@pytest.mark.parametrize(("disposition", "reason", "undecodable", "outcome", "more"), MOVES)
async def test_a_moved_message_has_one_record_with_its_new_queue_and_the_reason(
    consumer: Consumer,
    disposition: Disposition,
    reason: int,
    undecodable: Undecodable | None,
    outcome: RecordOutcome,
    more: dict[str, Any],
) -> None:
    consumer.records.got(GOT)
    consumer.records.got(GOT)
    attempts = (Attempt(Requeue("BAD"), reason), Attempt(disposition))
    await consumer.records.record_move(consumer.session, Disposal(attempts), undecodable)
    await consumer.records.record_commit(consumer.session)
    consumer.session.connection.commit()

    moved, delivered = (of_delivery(each) for each in consumer.put())
    assert consumer.known(outcome, **more) == moved
    assert consumer.known(RecordOutcome.COMMITTED, 2, done_ts=NOW_US) == delivered


async def test_a_message_that_was_moved_in_a_unit_that_was_backed_out_is_left(consumer: Consumer) -> None:
    consumer.records.got(GOT)
    await consumer.records.record_move(consumer.session, Disposal((Attempt(Discard("asked")),)), None)
    consumer.session.connection.backout()
    await consumer.records.record_backout(consumer.session)

    assert [consumer.known(RecordOutcome.LEFT, 2)] == [of_delivery(each) for each in consumer.put()]


async def test_a_message_that_stays_has_no_record_of_a_move(consumer: Consumer) -> None:
    consumer.records.got(GOT)
    await consumer.records.record_move(consumer.session, Disposal((Attempt(Return("no queue took it")),)), None)
    consumer.session.connection.commit()

    assert [] == consumer.put()


async def test_a_heartbeat_is_put_once_a_minute_outside_of_a_unit_of_work(consumer: Consumer) -> None:
    counts = []
    for seconds in (0, 59.5, 0.5, 59.5, 0.5):
        consumer.recorded.clock.advance(seconds)
        await consumer.records.heartbeat(consumer.session)
        counts.append([each.outcome for each in consumer.put()])

    beat = [RecordOutcome.HEARTBEAT]
    assert [beat, [], beat, [], beat] == counts


async def test_without_known_attributes_a_record_has_no_threshold(consumer: Consumer) -> None:
    consumer.records.attributes = None
    consumer.records.got(GOT)
    await consumer.records.record_commit(consumer.session)
    consumer.session.connection.commit()

    assert [(None, None)] == [(each.bothresh, each.boqname) for each in consumer.put()]


async def test_a_refused_record_is_a_warning_of_the_event_loop(consumer: Consumer) -> None:
    consumer.recorded.queue_manager.administration.delete("RECORDS")
    for _ in range(2):
        consumer.records.got(GOT)
        await consumer.records.record_backout(consumer.session)

    assert ["Warned"] == [type(event).__name__ for event in consumer.recorded.events]


async def test_a_refused_commit_of_records_after_a_backout_is_a_warning(consumer: Consumer) -> None:
    faults = Faults(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
    connection: Any = faults.wrap(consumer.recorded.queue_manager).connect()  # an embedded connection, which has all verbs
    consumer.records.got(GOT)
    await consumer.records.record_backout(InlineSession(connection))

    [warned] = consumer.recorded.events
    assert isinstance(warned, Warned)
    assert ("RECORDS", True) == (warned.queue, warned.text.startswith("orders/mover: decisions are not recorded. MQCMIT"))
    assert not consumer.records.open
