"""Redrive: the fields that a message keeps, the reasons why a message stays, and a connection that breaks at any call."""

from contextlib import suppress

import pytest

from mqflow.events import Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import Format, GetOption, MessageFlag, OpenOption, Persistence, PutOption
from mqflow.mqi.properties.rfh2_properties import with_properties
from mqflow.mqi.properties.set import MessageProperty, PropertyType
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, DispositionRecord, RecordOutcome, from_bytes, put_time_us
from mqflow.runtime.dead_letters.redriver import RedrivenMessage, Redriver, Target, identity_of
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import CONNECT, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import Connection, GetOptions, Got
from mqflow.world import World
from tests.queue_contents import taken

DLQ = "DEAD.LETTERS"
WHOLE = MessageDescriptor(
    format="MQSTR", ccsid=819, message_id=b"m" * 24, correlation_id=b"c" * 24, priority=7, expiry_tenths=1_000,
    persistence=Persistence.PERSISTENT, user_identifier="amelie", put_application_name="booking", put_application_type=28,
    put_date="20250131", put_time="12345678", group_id=b"g" * 24, message_flags=int(MessageFlag.MSG_IN_GROUP),
)  # fmt: skip


def kit_with(*queues: str) -> QueueManagerKit:
    kit = QueueManagerKit()
    for queue in (DLQ, "ORDERS.IN", DISPOSITION_QUEUE):
        kit.define(queue)
    kit.define("SHUT", put="DISABLED")
    connection = kit.queue_manager.connect()
    for number, queue in enumerate(queues):
        put_dead_letter(connection, DLQ, b"%d" % number, queue=queue, descriptor=WHOLE if len(queues) == 1 else None)
    connection.disconnect()
    return kit


def redrive(kit: QueueManagerKit, connection: Connection, to: Target | None = None) -> list[RedrivenMessage]:
    return list(redriver(kit, connection, to).run())


def redriver(kit: QueueManagerKit, connection: Connection, to: Target | None = None) -> Redriver:
    recorder = ConnectionRecorder(
        DISPOSITION_QUEUE, consumer="redrive", world=World(kit.clock, SeededRandom(7)), notify=kit.events.append
    )
    return Redriver(
        connection=connection, queue=DLQ, wanted=lambda _: True, to=to, clock=kit.clock, pause=kit.clock.advance,
        records=recorder, redrive_id="R1",
    )  # fmt: skip


def recorded(kit: QueueManagerKit) -> list[DispositionRecord]:
    found = [from_bytes(got.body) for got in taken(kit.queue_manager, DISPOSITION_QUEUE)]
    return [each for each in found if each is not None]


def test_identifiers_context_priority_and_remaining_expiry_stay() -> None:
    kit = kit_with("ORDERS.IN")
    kit.clock.advance(3)

    redrive(kit, kit.queue_manager.connect())

    [got] = taken(kit.queue_manager, "ORDERS.IN")
    differs = {
        name: getattr(got.descriptor, name)
        for name in WHOLE.__struct_fields__
        if getattr(WHOLE, name) != getattr(got.descriptor, name)
    }
    assert {"expiry_tenths": 970} == differs


def test_the_properties_of_a_message_stay_although_its_queue_hides_them() -> None:
    """Source: IBM q103350: PROPCTL(NONE) removes the properties from a message that is got without a message handle."""
    kit = kit_with()
    kit.mqsc(f"ALTER QLOCAL({DLQ}) PROPCTL(NONE)")
    colour = MessageProperty(name="usr.colour", type=PropertyType.STRING, value="blue")
    descriptor, data = with_properties(MessageDescriptor(format=Format.STRING, ccsid=1208), b"an order", (colour,))
    connection = kit.queue_manager.connect()
    connection.put1(DLQ, descriptor, data, PutOption.NO_SYNCPOINT)

    redrive(kit, connection, Target("ORDERS.IN"))

    [got] = taken(kit.queue_manager, "ORDERS.IN")
    assert (Format.RF_HEADER_2, data) == (got.descriptor.format, got.body)


def test_a_target_that_refuses_is_tried_once_and_the_others_go_on() -> None:
    kit = kit_with("SHUT", "ORDERS.IN", "SHUT")
    connection = kit.faults.wrap(kit.queue_manager).connect()

    done = redrive(kit, connection)

    assert [Reason.PUT_INHIBITED, 0, 0] == [each.reason for each in done]
    assert [True, False, True] == [bool(each.why_not) for each in done]
    assert 1 == sum((call.verb, call.object_name) == ("MQPUT", "SHUT") for call in kit.faults.calls)
    assert 2 == len(taken(kit.queue_manager, DLQ))
    status = kit.queue_manager.administration.queue_status
    assert [0, 0] == [status(queue).open_output_count for queue in ("ORDERS.IN", "SHUT")]


def test_a_target_that_is_altered_or_made_again_meanwhile_goes_on_taking_messages() -> None:
    kit = kit_with("ORDERS.IN", "ORDERS.IN", "ORDERS.IN")
    run = redriver(kit, kit.queue_manager.connect()).run()

    done = [next(run)]
    kit.mqsc("ALTER QLOCAL(ORDERS.IN) USAGE(XMITQ) FORCE", "ALTER QLOCAL(ORDERS.IN) USAGE(NORMAL) FORCE")
    done.append(next(run))
    kit.mqsc("ALTER QLOCAL(ORDERS.IN) USAGE(XMITQ) FORCE", "ALTER QLOCAL(ORDERS.IN) USAGE(NORMAL) FORCE")
    done += run

    assert ["", "", ""] == [each.why_not for each in done]
    assert [b"0", b"1", b"2"] == [got.body for got in taken(kit.queue_manager, "ORDERS.IN")]


@pytest.mark.parametrize("name", [DLQ, "ALIAS"])
def test_a_message_is_not_put_back_on_the_queue_it_is_on(name: str) -> None:
    kit = kit_with("ORDERS.IN")
    kit.define("ALIAS", "QALIAS", target=DLQ)

    [done] = redrive(kit, kit.queue_manager.connect(), Target(name))

    assert done.why_not
    assert 1 == len(taken(kit.queue_manager, DLQ))


def test_a_connection_that_breaks_at_any_call_loses_nothing_and_doubles_nothing() -> None:
    queues = ("ORDERS.IN", "SHUT", "ORDERS.IN")
    kit = kit_with(*queues)
    redrive(kit, kit.faults.wrap(kit.queue_manager).connect())
    calls = [call for call in kit.faults.calls if call.verb != CONNECT]
    assert len(calls) > 10

    for number, call in enumerate(calls, start=1):
        for moment in Moment:
            broken = kit_with(*queues)
            broken.faults.add(Fault(nth=number, moment=moment))
            said = call.verb in {"MQGET", "MQPUT", "MQCMIT"} and call.object_name != "SHUT"  # which refuses the put itself
            with pytest.raises(MQIError) if said else suppress(MQIError):
                redrive(broken, broken.faults.wrap(broken.queue_manager).connect())
            redrive(broken, broken.queue_manager.connect())

            back = taken(broken.queue_manager, "ORDERS.IN")
            assert [b"0", b"2"] == [got.body for got in back], f"broken {moment.value} at {call}"
            told = [each.msg_id for each in recorded(broken)]
            assert [got.descriptor.message_id for got in back] == told, f"broken {moment.value} at {call}"
            assert [b"1"] == [got.body[172:] for got in taken(broken.queue_manager, DLQ)]


def test_a_message_that_is_put_back_has_a_record_under_the_name_of_the_redrive() -> None:
    kit = kit_with("ORDERS.IN")

    redrive(kit, kit.queue_manager.connect())

    [record] = recorded(kit)
    assert (RecordOutcome.REDRIVEN, "QM1", "ORDERS.IN", "R1") == (record.outcome, record.qmgr, record.queue, record.redrive_id)
    assert (WHOLE.message_id, put_time_us(WHOLE.put_date, WHOLE.put_time)) == (record.msg_id, record.put_ts)
    assert (1, "MQSTR", None) == (record.msg_len, record.format, record.handler)


def test_a_queue_that_refuses_records_delays_no_message_and_is_reported_once() -> None:
    kit = kit_with("ORDERS.IN", "ORDERS.IN")
    kit.mqsc(f"ALTER QLOCAL({DISPOSITION_QUEUE}) PUT(DISABLED)")

    done = redrive(kit, kit.queue_manager.connect())

    assert ["", ""] == [each.why_not for each in done]
    assert (2, []) == (len(taken(kit.queue_manager, "ORDERS.IN")), recorded(kit))
    [warned] = kit.told(Warned)
    assert "MQRC_PUT_INHIBITED (2051)" in warned.text


@pytest.mark.parametrize(
    ("to", "moved_before", "why_not"),
    [(Target(DLQ, "QM1"), 0, "The message is on that queue already."),
     (Target(DLQ, "QM2"), 0, "MQ"),
     (None, 1, ""),
     (None, 2, "This run or its journal has a move of the same MsgId and CorrelId already. --again 3 moves this message too.")],
)  # fmt: skip
def test_a_message_is_moved_a_limited_number_of_times_and_not_to_the_queue_it_is_on(
    to: Target | None, moved_before: int, why_not: str
) -> None:
    kit = kit_with("ORDERS.IN")
    made = redriver(kit, kit.queue_manager.connect(), to)
    made.times_max = 2
    made.moved_before.update({identity_of(kit_message(kit)): moved_before})

    [done] = made.run()

    assert (to or Target("ORDERS.IN", "QM1"), WHOLE.message_id) == (done.target, done.message_id)
    assert done.why_not == why_not if why_not != "MQ" else done.why_not.startswith("MQ")
    assert moved_before + (not done.why_not) == made.moved_before[done.identity]


def kit_message(kit: QueueManagerKit) -> Got:
    connection = kit.queue_manager.connect()
    got = connection.get(connection.open(DLQ, OpenOption.BROWSE), GetOptions(options=GetOption.BROWSE_FIRST))
    assert got is not None
    connection.disconnect()
    return got


@pytest.mark.parametrize(
    ("fault", "reasons", "backouts"),
    [
        (Fault(verb="MQGET", nth=2, reason=Reason.NO_MSG_UNDER_CURSOR), [Reason.NO_MSG_UNDER_CURSOR, 0], 1),
        (Fault(verb="MQPUT", reason=Reason.MSG_TOO_BIG_FOR_Q), [Reason.MSG_TOO_BIG_FOR_Q, 0], 1),
        (Fault(verb="MQCMIT", reason=Reason.BACKED_OUT), [Reason.BACKED_OUT, 0], 0),
    ],
    ids=["gone", "too big", "backed out"],
)
def test_a_refusal_that_concerns_one_message_stops_no_other(fault: Fault, reasons: list[int], backouts: int) -> None:
    kit = kit_with("ORDERS.IN", "ORDERS.IN")
    kit.faults.add(fault)

    done = redrive(kit, kit.faults.wrap(kit.queue_manager).connect())

    assert (reasons, backouts) == ([each.reason for each in done], sum(call.verb == "MQBACK" for call in kit.faults.calls))
    assert [True, False] == [bool(each.why_not) for each in done]
    assert (1, 1) == (len(taken(kit.queue_manager, DLQ)), len(taken(kit.queue_manager, "ORDERS.IN")))


def test_a_commit_in_doubt_ends_the_redrive_with_no_open_unit_of_work() -> None:
    """Only 2003 at MQCMIT says that the message stays."""
    kit = kit_with("ORDERS.IN", "ORDERS.IN")
    kit.faults.add(Fault(verb="MQCMIT", reason=Reason.RESOURCE_PROBLEM))
    connection = kit.faults.wrap(kit.queue_manager).connect()

    with pytest.raises(MQIError, match=r"MQCMIT.*2102"):
        redrive(kit, connection)
    connection.disconnect()  # commits an open unit of work

    assert [b"0", b"1"] == [got.body[172:] for got in taken(kit.queue_manager, DLQ)]
    assert [] == taken(kit.queue_manager, "ORDERS.IN")


def test_a_commit_in_doubt_is_reported_although_the_backout_after_it_fails() -> None:
    kit = kit_with("ORDERS.IN")
    kit.faults.add(Fault(verb="MQCMIT", reason=Reason.RESOURCE_PROBLEM), Fault(verb="MQBACK"))

    with pytest.raises(MQIError, match=r"MQCMIT.*2102"):
        redrive(kit, kit.faults.wrap(kit.queue_manager).connect())


def test_a_commit_without_an_answer_leaves_the_move_of_its_message_in_doubt() -> None:
    kit = kit_with("ORDERS.IN", "ORDERS.IN")
    kit.faults.add(Fault(verb="MQCMIT", nth=2, reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER))
    made = redriver(kit, kit.faults.wrap(kit.queue_manager).connect())
    moves = made.run()

    first = next(moves)
    with pytest.raises(MQIError, match="MQCMIT"):
        next(moves)

    assert made.in_doubt is not None
    assert (Target("ORDERS.IN", "QM1"), Reason.CONNECTION_BROKEN) == (made.in_doubt.target, made.in_doubt.reason)
    assert first.identity != made.in_doubt.identity
    assert f"Look for {made.in_doubt.message_id.hex()} on both queues." in made.in_doubt.why_not


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_says_of_a_second_copy_of_a_message_what_the_run_does(*, dry_run: bool) -> None:
    kit = kit_with()
    connection = kit.queue_manager.connect()
    for _ in range(2):
        put_dead_letter(connection, DLQ, b"copy", queue="ORDERS.IN", descriptor=WHOLE)
    made = redriver(kit, connection)
    made.dry_run = dry_run

    first, second = made.run()

    assert ("", True) == (first.why_not, "a move of the same MsgId and CorrelId" in second.why_not)
    left = (len(taken(kit.queue_manager, DLQ)), len(taken(kit.queue_manager, "ORDERS.IN")))
    assert ((2, 0) if dry_run else (1, 1)) == left


@pytest.mark.parametrize(("rate", "took_s"), [(0.0, 0.0), (2.0, 1.0), (0.5, 4.0)])
def test_a_rate_spaces_the_messages_evenly(rate: float, took_s: float) -> None:
    kit = kit_with("ORDERS.IN", "ORDERS.IN", "ORDERS.IN")
    made = redriver(kit, kit.queue_manager.connect())
    made.rate = rate

    assert 3 == len(list(made.run()))
    assert took_s == kit.clock.monotonic()
