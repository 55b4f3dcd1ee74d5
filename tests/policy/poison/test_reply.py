"""A reply takes its identifiers, and how long it is worth delivering, from what its request asked for.

Source: IBM q097680, "Report (MQLONG)".
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import Format, MessageType, Persistence, Report
from mqflow.policy.poison.reply import reply_descriptor

MESSAGE_ID, CORRELATION_ID = b"M" * 24, b"C" * 24

REQUEST = MessageDescriptor(
    message_type=MessageType.REQUEST,
    message_id=MESSAGE_ID,
    correlation_id=CORRELATION_ID,
    expiry_tenths=300,
    priority=7,
    persistence=Persistence.PERSISTENT,
    format=Format.STRING,
    ccsid=819,
    reply_to_queue="REPLIES",
    reply_to_queue_manager="QM1",
    backout_count=2,
    user_identifier="alice",
)

FIRST_BITS = Report.COA | Report.EXCEPTION_WITH_FULL_DATA | Report.PAN


@pytest.mark.parametrize(
    ("options", "message_id", "correlation_id"),
    [
        (Report.NONE, NO_ID, MESSAGE_ID),
        (Report.PASS_MSG_ID, MESSAGE_ID, MESSAGE_ID),
        (Report.PASS_CORREL_ID, NO_ID, CORRELATION_ID),
        (Report.PASS_MSG_ID | Report.PASS_CORREL_ID, MESSAGE_ID, CORRELATION_ID),
        (FIRST_BITS, NO_ID, MESSAGE_ID),
    ],
    ids=["neither", "MQRO_PASS_MSG_ID", "MQRO_PASS_CORREL_ID", "both", "other options"],
)
def test_a_reply_s_identifiers_are_as_the_request_wants_them(options: int, message_id: bytes, correlation_id: bytes) -> None:
    reply = reply_descriptor(replace(REQUEST, report=int(options)))

    assert (message_id, correlation_id) == (reply.message_id, reply.correlation_id)


@pytest.mark.parametrize(
    ("options", "passed_on", "expiry_tenths"),
    [
        (Report.NONE, Report.NONE, -1),
        (Report.DISCARD_MSG, Report.NONE, -1),
        (Report.PASS_DISCARD_AND_EXPIRY, Report.NONE, 300),
        (Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG | FIRST_BITS, Report.DISCARD_MSG, 300),
    ],
    ids=["neither", "discard alone", "passed", "passed with discard"],
)
def test_a_reply_lives_as_long_as_its_request_only_where_that_is_asked_for(
    options: int, passed_on: int, expiry_tenths: int
) -> None:
    reply = reply_descriptor(replace(REQUEST, report=int(options)))

    assert (passed_on, expiry_tenths) == (reply.report, reply.expiry_tenths)


def test_a_reply_has_priority_and_persistence_of_its_request() -> None:
    reply = reply_descriptor(REQUEST)

    assert (MessageType.REPLY, 7, Persistence.PERSISTENT) == (reply.message_type, reply.priority, reply.persistence)


@given(st.integers(0, 0xFFFFFFF))
def test_a_reply_takes_nothing_else_from_its_request(options: int) -> None:
    reply = reply_descriptor(replace(REQUEST, report=options))

    assert MessageDescriptor() == replace(
        reply,
        report=0,
        message_type=MessageType.DATAGRAM,
        message_id=NO_ID,
        correlation_id=NO_ID,
        expiry_tenths=-1,
        priority=-1,
        persistence=Persistence.AS_Q_DEF,
    )
