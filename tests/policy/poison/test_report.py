"""The reports and replies to a message: when a report is owed, its content, and its queue; the fields of a reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers import dead_letter, rfh2
from mqflow.mqi.headers.dead_letter import DLH_BYTES, DeadLetterHeader
from mqflow.mqi.headers.rfh2 import RFH2, Folder, FolderProperty
from mqflow.mqi.options import Encoding, Feedback, Format, MessageType, Persistence, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Disposition, Requeue, Return
from mqflow.policy.poison.report import (
    ReportMessage,
    answer_to_failure,
    exception_report,
    is_exception_report_owed,
    reply_descriptor,
    report,
)

MESSAGE_ID, CORRELATION_ID = b"M" * 24, b"C" * 24
BODY = bytes(range(256))

ORDER = MessageDescriptor(
    report=Report.EXCEPTION, message_id=MESSAGE_ID, correlation_id=CORRELATION_ID, reply_to_queue="ORDERS.REPORTS",
    reply_to_queue_manager="QM2", format=Format.STRING, encoding=Encoding.NORMAL, ccsid=819, priority=7,
    persistence=Persistence.PERSISTENT, expiry_tenths=600, backout_count=3, user_identifier="alice", accounting_token=b"A" * 32,
    application_identity_data="shop",
)  # fmt: skip

REQUEST = MessageDescriptor(
    message_type=MessageType.REQUEST, message_id=MESSAGE_ID, correlation_id=CORRELATION_ID, expiry_tenths=300, priority=7,
    persistence=Persistence.PERSISTENT, format=Format.STRING, ccsid=819, reply_to_queue="REPLIES", reply_to_queue_manager="QM1",
    backout_count=2, user_identifier="alice",
)  # fmt: skip

FIRST_BITS = Report.COA | Report.EXCEPTION_WITH_FULL_DATA | Report.PAN

KINDS = {
    "exception": (Report.EXCEPTION_MASK, Report.EXCEPTION, Report.EXCEPTION_WITH_DATA, Report.EXCEPTION_WITH_FULL_DATA),
    "coa": (Report.COA_MASK, Report.COA, Report.COA_WITH_DATA, Report.COA_WITH_FULL_DATA),
    "cod": (Report.COD_MASK, Report.COD, Report.COD_WITH_DATA, Report.COD_WITH_FULL_DATA),
    "expiration": (Report.EXPIRATION_MASK, Report.EXPIRATION, Report.EXPIRATION_WITH_DATA, Report.EXPIRATION_WITH_FULL_DATA),
}


def asking(options: int) -> MessageDescriptor:
    return replace(ORDER, report=int(options))


def made(options: int, body: bytes = BODY) -> ReportMessage:
    told = exception_report(asking(options), body, feedback=Reason.Q_FULL)
    assert told is not None
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_carries_as_much_data_as_its_sender_asked_for(kind: str) -> None:
    mask, plain, with_data, with_full_data = KINDS[kind]
    told = [report(asking(options), BODY, mask=mask, feedback=0) for options in (plain, with_data, with_full_data)]

    assert [b"", BODY[:100], BODY] == [one and one.body for one in told]


@pytest.mark.parametrize("kind", KINDS)
def test_no_report_is_made_of_a_kind_that_was_not_asked_for(kind: str) -> None:
    mask = KINDS[kind][0]
    every_other_kind = 0
    for other, (_, _, _, with_full_data) in KINDS.items():
        every_other_kind |= 0 if other == kind else with_full_data

    assert report(asking(every_other_kind), BODY, mask=mask, feedback=0) is None


@pytest.mark.parametrize("options", [0x2000000, 0x4000000, 0x5000000, 0x6000000])
def test_bits_that_are_no_option_ask_for_nothing(options: int) -> None:
    assert exception_report(asking(options), BODY, feedback=0) is None


def test_a_message_that_names_no_queue_to_reply_to_gets_no_report() -> None:
    assert exception_report(replace(ORDER, reply_to_queue=""), BODY, feedback=0) is None


def test_a_report_goes_to_the_queue_the_message_names_and_expects_no_answer() -> None:
    told = made(Report.EXCEPTION)

    assert ("ORDERS.REPORTS", "QM2") == (told.reply_to_queue, told.reply_to_queue_manager)
    assert ("", "") == (told.descriptor.reply_to_queue, told.descriptor.reply_to_queue_manager)


def test_a_report_is_a_report_that_says_why() -> None:
    told = made(Report.EXCEPTION).descriptor

    assert (MessageType.REPORT, Reason.Q_FULL, 0) == (told.message_type, told.feedback, told.backout_count)


def test_a_report_has_priority_and_persistence_of_its_message() -> None:
    told = made(Report.EXCEPTION).descriptor

    assert (7, Persistence.PERSISTENT) == (told.priority, told.persistence)


def test_a_report_describes_its_data_as_the_message_did_even_where_there_is_less() -> None:
    # q107770: Format is copied, so it can promise more data than the report has.
    told = made(Report.EXCEPTION).descriptor

    assert (Format.STRING, Encoding.NORMAL, 819) == (told.format, told.encoding, told.ccsid)


def test_a_report_has_the_identity_context_of_the_message() -> None:
    told = made(Report.EXCEPTION).descriptor

    assert ("alice", b"A" * 32, "shop") == (told.user_identifier, told.accounting_token, told.application_identity_data)


@pytest.mark.parametrize(
    ("options", "message_id", "correlation_id"),
    [
        (Report.NONE, NO_ID, MESSAGE_ID),
        (Report.PASS_MSG_ID, MESSAGE_ID, MESSAGE_ID),
        (Report.PASS_CORREL_ID, NO_ID, CORRELATION_ID),
        (Report.PASS_MSG_ID | Report.PASS_CORREL_ID, MESSAGE_ID, CORRELATION_ID),
    ],
    ids=["new, copied", "passed, copied", "new, passed", "passed, passed"],
)
def test_identifiers_are_new_and_copied_unless_the_sender_wants_them_passed(
    options: int, message_id: bytes, correlation_id: bytes
) -> None:
    told = made(Report.EXCEPTION | options).descriptor

    assert (message_id, correlation_id) == (told.message_id, told.correlation_id)


@pytest.mark.parametrize(
    ("options", "passed_on", "expiry_tenths"),
    [
        (Report.NONE, Report.NONE, -1),
        (Report.DISCARD_MSG, Report.NONE, -1),
        (Report.PASS_DISCARD_AND_EXPIRY, Report.NONE, 600),
        (Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG, Report.DISCARD_MSG, 600),
    ],
    ids=["neither", "discard alone", "passed", "passed with discard"],
)
def test_discarding_and_expiry_pass_to_the_report_only_where_the_sender_says_so(
    options: int, passed_on: int, expiry_tenths: int
) -> None:
    told = made(Report.EXCEPTION | options).descriptor

    assert (passed_on, expiry_tenths) == (told.report, told.expiry_tenths)


def test_some_data_is_all_headers_and_a_hundred_bytes_behind_them() -> None:
    inner = RFH2(folders=(Folder("usr", (FolderProperty("colour", "blue"),)),), encoding=273, ccsid=819, format=Format.STRING)
    outer = DeadLetterHeader(reason=2053, destination_queue="Q", encoding=273, ccsid=1208, format=Format.RF_HEADER_2)
    headers = dead_letter.to_bytes(outer, encoding=273) + rfh2.to_bytes(inner, encoding=273)
    headed = replace(asking(Report.EXCEPTION_WITH_DATA), format=Format.DEAD_LETTER_HEADER)

    told = exception_report(headed, headers + BODY, feedback=0)

    assert told is not None
    assert headers + BODY[:100] == told.body


def test_a_header_that_does_not_hold_together_is_data() -> None:
    headed = replace(asking(Report.EXCEPTION_WITH_DATA), format=Format.DEAD_LETTER_HEADER)

    told = exception_report(headed, b"DLX " + bytes(DLH_BYTES), feedback=0)

    assert told is not None
    assert b"DLX " + bytes(96) == told.body


@given(st.integers(0, 0xFFFFFFF), st.binary(max_size=300), st.sampled_from([Feedback.COA, Feedback.COD, Feedback.EXPIRATION]))
def test_a_report_never_asks_for_reports_and_never_has_more_data_than_its_message(
    options: int, body: bytes, feedback: int
) -> None:
    for mask, *_ in KINDS.values():
        told = report(asking(options), body, mask=mask, feedback=feedback)
        if told is not None:
            assert told.descriptor.report in {Report.NONE, Report.DISCARD_MSG}
            assert body.startswith(told.body)


REPORTING = sorted(set(Behaviour) - {Behaviour.BROKER_INPUT_NODE, Behaviour.PLAIN_MQI}, key=str)
DISPOSITIONS: tuple[tuple[Disposition, int, bool], ...] = (
    (Deliver(), Report.NONE, False),
    (Requeue("ORDERS.BOQ"), Report.NONE, False),
    (DeadLetter("DLQ", 2362), Report.NONE, True),
    (Discard("its sender asked for it"), Report.DISCARD_MSG, True),
    (Discard("no queue took it"), Report.NONE, False),
    (Return("no queue took it"), Report.NONE, False),
)


@pytest.mark.parametrize(("disposition", "options", "owed"), DISPOSITIONS, ids=str)
@pytest.mark.parametrize("behaviour", REPORTING)
def test_a_consumer_of_jms_owes_a_report_for_a_dead_lettered_or_discarded_message(
    behaviour: Behaviour, disposition: Disposition, options: int, *, owed: bool
) -> None:
    assert owed is is_exception_report_owed(asking(options), disposition, behaviour)


@pytest.mark.parametrize("behaviour", [Behaviour.BROKER_INPUT_NODE, Behaviour.PLAIN_MQI])
def test_no_other_behaviour_owes_a_report(behaviour: Behaviour) -> None:
    assert not any(is_exception_report_owed(asking(options), disposed, behaviour) for disposed, options, _ in DISPOSITIONS)


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
        reply, report=0, message_type=MessageType.DATAGRAM, message_id=NO_ID, correlation_id=NO_ID, expiry_tenths=-1,
        priority=-1, persistence=Persistence.AS_Q_DEF,
    )  # fmt: skip


ANSWERED: tuple[tuple[Disposition, bool], ...] = (
    (Deliver(), False),
    (Requeue("ORDERS.BOQ"), True),
    (DeadLetter("DLQ", 2362), True),
    (Discard("its sender asked for it"), True),
    (Return("no queue took it"), False),
)


@pytest.mark.parametrize(("disposition", "answered"), ANSWERED, ids=str)
def test_a_request_that_has_left_its_queue_is_answered(disposition: Disposition, *, answered: bool) -> None:
    answer = answer_to_failure(REQUEST, BODY, disposition, feedback=2362)

    assert answered is (answer is not None)


@pytest.mark.parametrize(
    "descriptor",
    [ORDER, replace(REQUEST, reply_to_queue=""), *(replace(REQUEST, message_type=int(kind)) for kind in (2, 4, 8, 70_000))],
)
def test_only_a_request_with_a_queue_to_reply_to_is_answered(descriptor: MessageDescriptor) -> None:
    assert answer_to_failure(descriptor, BODY, Requeue("ORDERS.BOQ"), feedback=2362) is None


def test_an_answer_is_a_report_on_the_reply_queue_without_data_that_is_dropped_if_it_is_refused() -> None:
    answer = answer_to_failure(REQUEST, BODY, Requeue("ORDERS.BOQ"), feedback=Reason.JMS_FORMAT_ERROR)

    expected = MessageDescriptor(
        message_type=MessageType.REPORT,
        feedback=2364,
        correlation_id=MESSAGE_ID,
        priority=7,
        persistence=Persistence.PERSISTENT,
    )
    assert ReportMessage("REPLIES", "QM1", expected, b"", is_kept=False) == answer


@pytest.mark.parametrize(
    ("options", "data"),
    [(Report.EXCEPTION, b""), (Report.EXCEPTION_WITH_DATA, BODY[:100]), (Report.EXCEPTION_WITH_FULL_DATA, BODY)],
)
def test_an_answer_is_the_exception_report_that_the_request_asks_for(options: Report, data: bytes) -> None:
    request = replace(REQUEST, report=int(options))

    answer = answer_to_failure(request, BODY, Requeue("ORDERS.BOQ"), feedback=2362)

    report_asked_for = exception_report(request, BODY, feedback=2362)
    assert answer is not None
    assert report_asked_for is not None
    assert replace(report_asked_for, is_kept=False) == answer
    assert data == answer.body


@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1]), st.integers(-1, 999_999_999))
def test_an_answer_has_the_identifiers_of_a_reply_to_any_request(options: int, persistence: int, expiry: int) -> None:
    request = replace(REQUEST, report=options, persistence=persistence, expiry_tenths=expiry)

    answer = answer_to_failure(request, BODY, Requeue("ORDERS.BOQ"), feedback=2362)

    assert answer is not None
    reply, told = reply_descriptor(request), answer.descriptor
    assert (MessageType.REPORT, 2362) == (told.message_type, told.feedback)
    for name in ("message_id", "correlation_id", "priority", "persistence", "expiry_tenths", "report"):
        assert getattr(reply, name) == getattr(told, name), name
    assert BODY.startswith(answer.body)
