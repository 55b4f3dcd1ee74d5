"""The records of a DLQ handler: one record for each action, without a handler name, committed if the action is committed."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from mqflow.events import Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, DispositionRecord, RecordOutcome, from_bytes
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import drive, put_dead_letter
from mqflow.testing.faults import CONNECT, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.world import World
from tests.queue_contents import taken

DLQ = "DEAD.LETTERS"
ORDER = MessageDescriptor(format="MQSTR", ccsid=1208, persistence=Persistence.PERSISTENT)
REDRIVEN, DISCARDED, LEFT = RecordOutcome.REDRIVEN, RecordOutcome.DISCARDED, RecordOutcome.LEFT


@pytest.fixture
def mq() -> Iterator[QueueManagerKit]:
    kit = kit_with()
    yield kit
    kit.close()


def kit_with(*queues: str) -> QueueManagerKit:
    kit = QueueManagerKit()
    for queue in (DLQ, "ORDERS.IN", "OTHER", DISPOSITION_QUEUE):
        kit.define(queue)
    kit.define("SHUT", put="DISABLED")
    for queue in queues:
        put(kit, queue)
    return kit


def put(kit: QueueManagerKit, queue: str = "ORDERS.IN", body: bytes = b"an order") -> bytes:
    connection = kit.queue_manager.connect()
    made = put_dead_letter(connection, DLQ, body, queue=queue, descriptor=ORDER)
    connection.disconnect()
    return made.descriptor.message_id


def run(kit: QueueManagerKit, text: str, control: str = "WAIT(NO)") -> None:
    table = parse(f"RETRYINT(1) {control}\n{text}")
    assert isinstance(table, RulesTable), table
    world = World(kit.clock, SeededRandom(3))
    recorder = ConnectionRecorder(DISPOSITION_QUEUE, consumer="test/DLQ handler", world=world)
    rules = Rules(table.control, matchers(table.rules))
    broadcast = Broadcast((lambda event: kit.events.append(event),))  # noqa: PLW0108 - `append` has another parameter's name
    handler = DeadLetterHandler(rules, DLQ, clock=kit.clock, broadcast=broadcast, records=recorder)
    connection = kit.faults.wrap(kit.queue_manager).connect()
    handler.open(connection)
    drive(handler, connection, kit.clock)


def recorded(kit: QueueManagerKit) -> list[DispositionRecord]:
    found = [from_bytes(got.body) for got in taken(kit.queue_manager, DISPOSITION_QUEUE)]
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("rules", "outcome", "queue", "redrive_id"),
    [
        ("ACTION(RETRY)", REDRIVEN, "ORDERS.IN", f"{DLQ} line 2"),
        ("ACTION(FWD) FWDQ(OTHER) HEADER(NO)", REDRIVEN, "OTHER", f"{DLQ} line 2"),
        ("ACTION(FWD) FWDQ(OTHER)", REDRIVEN, "OTHER", f"{DLQ} line 2"),
        ("ACTION(DISCARD)", DISCARDED, DLQ, None),
        ("ACTION(IGNORE)", LEFT, DLQ, None),
        ("DESTQ(NOBODY) ACTION(DISCARD)", LEFT, DLQ, None),
    ],
)
def test_each_action_has_one_record(
    mq: QueueManagerKit, rules: str, outcome: RecordOutcome, queue: str, redrive_id: str | None
) -> None:
    message_id = put(mq)

    run(mq, rules)

    [record] = recorded(mq)
    assert (outcome, "QM1", queue, redrive_id) == (record.outcome, record.qmgr, record.queue, record.redrive_id)
    assert (message_id, "test/DLQ handler") == (record.msg_id, record.consumer)
    assert (None, None, None) == (record.handler, record.backout_count, record.done_ts), "no delivery to a handler"


def test_a_message_is_recorded_as_it_is_where_it_was_put(mq: QueueManagerKit) -> None:
    """The message keeps MsgId and put time, so the records of its next delivery can be matched with this record."""
    put(mq)

    run(mq, "ACTION(RETRY)")

    [record], [got] = recorded(mq), taken(mq.queue_manager, "ORDERS.IN")
    assert (got.descriptor.message_id, "MQSTR", 8) == (record.msg_id, record.format, record.msg_len)


def test_each_attempt_that_fails_leaves_the_message_and_says_where_it_could_not_go(mq: QueueManagerKit) -> None:
    put(mq, "SHUT")

    run(mq, "ACTION(RETRY) RETRY(2)", control="WAIT(30)")

    told = recorded(mq)
    assert [LEFT, LEFT] == [each.outcome for each in told]
    assert 1_000_000 <= told[1].event_ts - told[0].event_ts
    assert ("SHUT", Reason.PUT_INHIBITED) == (told[0].target_queue, told[0].mqrc)
    assert (told[0].exc_message or "").startswith("line 2: MQ")


def test_a_message_that_is_no_dead_letter_has_no_record(mq: QueueManagerKit) -> None:
    connection = mq.queue_manager.connect()
    connection.put1(DLQ, ORDER, b"put by hand", PutOption.NO_SYNCPOINT)

    run(mq, "ACTION(DISCARD)")

    assert [] == recorded(mq)


def test_a_queue_that_refuses_records_delays_no_message_and_is_reported_once(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) PUT(DISABLED)")
    for queue in ("ORDERS.IN", "ORDERS.IN", "SHUT"):
        put(mq, queue)

    run(mq, "ACTION(RETRY)")

    assert (2, 1) == (len(taken(mq.queue_manager, "ORDERS.IN")), len(taken(mq.queue_manager, DLQ)))
    assert 1 == sum("decisions are not recorded" in event.text for event in mq.events if isinstance(event, Warned))


def test_a_record_is_there_if_and_only_if_its_action_is_wherever_the_connection_breaks() -> None:
    queues, rules = ("ORDERS.IN", "OTHER", "ORDERS.IN"), "DESTQ(OTHER) ACTION(DISCARD)\nACTION(RETRY)"
    whole = kit_with(*queues)
    run(whole, rules)
    calls = [call for call in whole.faults.calls if call.verb != CONNECT]
    assert len(calls) > 10

    for number, call in enumerate(calls, start=1):
        for moment in Moment:
            kit = kit_with(*queues)
            kit.faults.add(Fault(nth=number, moment=moment))
            with suppress(MQIError):
                run(kit, rules)
            run(kit, rules)

            told = recorded(kit)
            back = [got.descriptor.message_id for got in taken(kit.queue_manager, "ORDERS.IN")]
            assert (2, 0) == (len(back), len(taken(kit.queue_manager, DLQ)))
            assert sorted(back) == sorted(each.msg_id or b"" for each in told if each.outcome is REDRIVEN), (call, moment)
            assert 1 == sum(each.outcome is DISCARDED for each in told), (call, moment)
