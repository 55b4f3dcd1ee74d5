"""A rules table on any queue manager: the handler's calls have the same effect on each. Source: IBM, the rules table."""

from mqflow.events import Event
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.runtime.dead_letters.dead_letter_handler import DeadLetterHandler, Rules
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.dead_letters import drive, put_dead_letter
from mqflow.testing.virtual_clock import VirtualClock
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest

DLQ = "DEAD.LETTERS"
TABLE = """
RETRYINT(5) WAIT(30)
REASON(MQRC_PUT_INHIBITED) ACTION(RETRY) RETRY(3)
USERID('amelie') ACTION(FWD) FWDQ(REALLY.DEAD)
PERSIST(MQPER_NOT_PERSISTENT) ACTION(DISCARD)
ACTION(RETRY) PUTAUT(CTX)
"""
SENT = MessageDescriptor(
    format="MQSTR", ccsid=1208, message_id=b"m" * 24, correlation_id=b"c" * 24, priority=7, persistence=Persistence.PERSISTENT,
    user_identifier="bert", accounting_token=b"a" * 32, application_identity_data="north", put_application_type=28,
    put_application_name="booking", put_date="20250131", put_time="12345678", application_origin_data="abcd",
)  # fmt: skip


def handle(program: Program) -> list[Event]:
    told: list[Event] = []

    def note(event: Event) -> None:
        told.append(event)

    table = parse(TABLE)
    assert isinstance(table, RulesTable)
    clock = VirtualClock()
    rules = Rules(table.control, matchers(table.rules))
    handler = DeadLetterHandler(rules, DLQ, clock=clock, broadcast=Broadcast((note,)))
    handler.open(program.connection)
    drive(handler, program.connection, clock)
    return told


def define(queue_manager: UnderTest) -> None:
    for name in (DLQ, "ORDERS.IN", "REALLY.DEAD"):
        queue_manager.define(name)
    queue_manager.define("SHUT", put_inhibited=True)


def test_each_message_ends_where_the_table_says(queue_manager: UnderTest, program: Program) -> None:
    define(queue_manager)
    put = program.connection
    put_dead_letter(put, DLQ, b"retried", queue="ORDERS.IN", descriptor=SENT)
    put_dead_letter(
        put, DLQ, b"refused", queue="SHUT", reason=Reason.PUT_INHIBITED, descriptor=MessageDescriptor(persistence=1)
    )
    put_dead_letter(
        put, DLQ, b"forwarded", queue="ORDERS.IN", descriptor=MessageDescriptor(user_identifier="amelie", persistence=1)
    )
    put_dead_letter(put, DLQ, b"discarded", queue="ORDERS.IN", descriptor=MessageDescriptor(persistence=0))
    program.put(DLQ, b"no dead letter")

    handle(program)

    assert [b"retried"] == program.bodies("ORDERS.IN")
    assert [b"forwarded"] == [body[172:] for body in program.bodies("REALLY.DEAD")]
    assert [b"refused", b"no dead letter"] == [body[172:] or body for body in program.bodies(DLQ)]


def test_a_message_put_back_is_the_one_that_was_sent(queue_manager: UnderTest, program: Program) -> None:
    define(queue_manager)
    put_dead_letter(program.connection, DLQ, b"retried", queue="ORDERS.IN", descriptor=SENT)

    handle(program)

    descriptor = program.got("ORDERS.IN").descriptor
    assert SENT == descriptor


def test_a_message_that_is_only_looked_at_keeps_its_count(queue_manager: UnderTest, program: Program) -> None:
    define(queue_manager)
    program.put(DLQ, b"no dead letter")

    handle(program)

    handle_of = program.connection.open(DLQ, OpenOption.INPUT_SHARED)
    assert 0 == program.got(handle_of).descriptor.backout_count
