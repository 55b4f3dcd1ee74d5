"""Redriving: what a message keeps, what makes it stay, and what holds when the connection breaks at any call."""

from contextlib import suppress

import pytest

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption, Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.redriver import Moved, Redriver, Target
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.faults import CONNECT, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, GetOptions, Got

DLQ = "DEAD.LETTERS"
WHOLE = MessageDescriptor(
    format="MQSTR", ccsid=819, message_id=b"m" * 24, correlation_id=b"c" * 24, priority=7, expiry_tenths=1_000,
    persistence=Persistence.PERSISTENT, user_identifier="amelie", put_application_name="booking", put_application_type=28,
    put_date="20250131", put_time="12345678", group_id=b"g" * 24,
)  # fmt: skip


def kit_with(*queues: str) -> QueueManagerKit:
    kit = QueueManagerKit()
    for queue in (DLQ, "ORDERS.IN"):
        kit.define(queue)
    kit.define("SHUT", put="DISABLED")
    connection = kit.queue_manager.connect()
    for number, queue in enumerate(queues):
        put_dead_letter(connection, DLQ, b"%d" % number, queue=queue, descriptor=WHOLE if len(queues) == 1 else None)
    connection.disconnect()
    return kit


def redrive(kit: QueueManagerKit, connection: Connection, to: Target | None = None) -> list[Moved]:
    redriver = Redriver(
        connection=connection, queue=DLQ, wanted=lambda _: True, to=to, clock=kit.clock, pause=kit.clock.advance
    )
    return list(redriver.run())


def taken(kit: QueueManagerKit, queue: str) -> list[Got]:
    connection = kit.queue_manager.connect()
    handle = connection.open(queue, OpenOption.INPUT_SHARED)
    found = []
    while got := connection.get(handle, GetOptions()):
        found.append(got)
    return found


def test_identifiers_context_priority_and_what_is_left_of_the_expiry_stay() -> None:
    kit = kit_with("ORDERS.IN")
    kit.clock.advance(3)

    redrive(kit, kit.queue_manager.connect())

    [got] = taken(kit, "ORDERS.IN")
    differs = {
        name: getattr(got.descriptor, name)
        for name in WHOLE.__struct_fields__
        if getattr(WHOLE, name) != getattr(got.descriptor, name)
    }
    assert {"expiry_tenths": 970} == differs


def test_a_target_that_refuses_is_tried_once_and_the_others_go_on() -> None:
    kit = kit_with("SHUT", "ORDERS.IN", "SHUT")
    connection = kit.faults.wrap(kit.queue_manager).connect()

    done = redrive(kit, connection)

    assert [Reason.PUT_INHIBITED, 0, 0] == [each.reason for each in done]
    assert [True, False, True] == [bool(each.why_not) for each in done]
    assert 1 == sum((call.verb, call.object_name) == ("MQPUT", "SHUT") for call in kit.faults.calls)
    assert 2 == len(taken(kit, DLQ))


@pytest.mark.parametrize("name", [DLQ, "ALIAS"])
def test_a_message_is_not_put_back_on_the_queue_it_is_on(name: str) -> None:
    kit = kit_with("ORDERS.IN")
    kit.define("ALIAS", "QALIAS", target=DLQ)

    [done] = redrive(kit, kit.queue_manager.connect(), Target(name))

    assert done.why_not
    assert 1 == len(taken(kit, DLQ))


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
            with suppress(MQIError):
                redrive(broken, broken.faults.wrap(broken.queue_manager).connect())
            redrive(broken, broken.queue_manager.connect())

            assert [b"0", b"2"] == [got.body for got in taken(broken, "ORDERS.IN")], f"broken {moment.value} at {call}"
            assert [b"1"] == [got.body[172:] for got in taken(broken, DLQ)]
