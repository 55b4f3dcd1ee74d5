"""The reports that a queue manager makes. Source: IBM q097680, "Report (MQLONG)"."""

import pytest

from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers import dead_letter
from mqflow.mqi.options import ApplicationType, Feedback, GetOption, MessageType, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from tests.conformance.programs import Program
from tests.conformance.under_test import UnderTest, refused

BODY = b"x" * 150
MESSAGE_ID = b"m" * 24
CORRELATION_ID = b"c" * 24


@pytest.fixture
def replies(queue_manager: UnderTest) -> str:
    return queue_manager.define("REPLIES")


def test_a_message_that_arrives_is_confirmed(queue_manager: UnderTest, queue: str, replies: str, program: Program) -> None:
    put = program.put(queue, BODY, format="MQSTR", priority=5, persistence=1, report=int(Report.COA), reply_to_queue=replies)
    got = program.got(replies)

    assert b"" == got.body
    assert (MessageType.REPORT, Feedback.COA) == (got.descriptor.message_type, got.descriptor.feedback)
    assert (ApplicationType.QMGR, queue_manager.name) == (
        got.descriptor.put_application_type,
        got.descriptor.put_application_name,
    )
    assert put.descriptor.message_id == got.descriptor.correlation_id
    assert got.descriptor.message_id not in {put.descriptor.message_id, NO_ID}
    assert (5, 1, "MQSTR") == (got.descriptor.priority, got.descriptor.persistence, got.descriptor.format)
    assert Report.NONE == got.descriptor.report
    assert "" == got.descriptor.reply_to_queue


def test_an_arrival_is_confirmed_in_the_putters_unit_of_work(
    queue: str, replies: str, program: Program, other: Program
) -> None:
    program.put_in_unit(queue, BODY, report=int(Report.COA), reply_to_queue=replies)
    before = other.get(replies)
    program.commit()

    assert before is None
    assert other.get(replies) is not None


def test_a_put_that_is_backed_out_confirms_nothing(
    queue_manager: UnderTest, queue: str, replies: str, program: Program
) -> None:
    program.put_in_unit(queue, BODY, report=int(Report.COA), reply_to_queue=replies)
    program.backout()

    assert 0 == queue_manager.depth(replies)


def test_a_delivery_is_confirmed_in_the_getters_unit_of_work(
    queue: str, replies: str, program: Program, other: Program
) -> None:
    other.put(queue, BODY, report=int(Report.COD), reply_to_queue=replies)
    program.get_in_unit(queue)
    before = other.get(replies)
    program.commit()

    assert before is None
    assert Feedback.COD == other.got(replies).descriptor.feedback


def test_a_delivery_that_is_backed_out_is_not_confirmed(queue: str, replies: str, program: Program, other: Program) -> None:
    other.put(queue, BODY, report=int(Report.COD), reply_to_queue=replies)
    program.get_in_unit(queue)
    program.backout()

    assert other.get(replies) is None


def test_a_delivery_outside_a_unit_of_work_is_confirmed_at_once(queue: str, replies: str, program: Program) -> None:
    program.put(queue, BODY, report=int(Report.COD), reply_to_queue=replies)
    program.get(queue)

    assert Feedback.COD == program.got(replies).descriptor.feedback


def test_a_browse_is_no_delivery(queue_manager: UnderTest, queue: str, replies: str, program: Program) -> None:
    program.put(queue, BODY, report=int(Report.COD), reply_to_queue=replies)
    program.browse(queue, GetOption.BROWSE_FIRST)

    assert 0 == queue_manager.depth(replies)


@pytest.mark.parametrize(
    "look", [GetOption.NO_SYNCPOINT, GetOption.SYNCPOINT, GetOption.BROWSE_FIRST], ids=["get", "in unit", "browse"]
)
def test_an_expired_message_is_reported_when_it_is_discarded(
    queue_manager: UnderTest, queue: str, replies: str, program: Program, other: Program, look: GetOption
) -> None:
    """The report is put outside the unit of work, even if the get that found the message is part of the unit of work."""
    program.put(queue, BODY, expiry_tenths=10, report=int(Report.EXPIRATION), reply_to_queue=replies)
    queue_manager.advance(1)
    before = queue_manager.depth(replies)
    program.get(queue, look)

    assert 0 == before
    assert Feedback.EXPIRATION == other.got(replies).descriptor.feedback


@pytest.mark.parametrize(
    ("report", "body_bytes"), [(Report.COA, 0), (Report.COA_WITH_DATA, 100), (Report.COA_WITH_FULL_DATA, 150)]
)
def test_a_report_carries_as_much_as_was_asked_for(
    queue: str, replies: str, program: Program, report: Report, body_bytes: int
) -> None:
    program.put(queue, BODY, report=int(report), reply_to_queue=replies)

    assert BODY[:body_bytes] == program.got(replies).body


@pytest.mark.parametrize(
    ("bits", "message_id", "correlation_id"),
    [
        (Report.NONE, None, MESSAGE_ID),
        (Report.PASS_MSG_ID, MESSAGE_ID, MESSAGE_ID),
        (Report.PASS_CORREL_ID, None, CORRELATION_ID),
        (Report.PASS_MSG_ID | Report.PASS_CORREL_ID, MESSAGE_ID, CORRELATION_ID),
    ],
)
def test_the_report_options_choose_the_identifiers(
    queue: str, replies: str, program: Program, bits: Report, message_id: bytes | None, correlation_id: bytes
) -> None:
    program.put(
        queue, BODY, message_id=MESSAGE_ID, correlation_id=CORRELATION_ID, report=int(Report.COA | bits), reply_to_queue=replies
    )
    got = program.got(replies).descriptor

    assert correlation_id == got.correlation_id
    assert (message_id or got.message_id) == got.message_id
    assert (message_id is None) == (got.message_id != MESSAGE_ID)


def test_a_report_for_an_inhibited_alias_goes_to_the_dead_letter_queue(
    queue_manager: UnderTest, queue: str, replies: str, program: Program
) -> None:
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    queue_manager.define_alias("ALIAS", replies, put_inhibited=True)
    program.put(queue, BODY, report=int(Report.COA), reply_to_queue="ALIAS")

    assert (0, 1) == (queue_manager.depth(replies), queue_manager.depth("SYSTEM.DEAD.LETTER.QUEUE"))


def test_a_persistent_report_does_not_go_to_a_temporary_queue(queue_manager: UnderTest, queue: str, program: Program) -> None:
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    temporary = program.open("SYSTEM.DEFAULT.MODEL.QUEUE")
    program.put(queue, BODY, persistence=1, report=int(Report.COA), reply_to_queue=temporary.name)
    got = program.got("SYSTEM.DEAD.LETTER.QUEUE")

    assert Reason.PERSISTENT_NOT_ALLOWED == dead_letter.parse(got.body, encoding=got.descriptor.encoding).reason


def test_a_report_for_a_model_goes_to_the_dead_letter_queue_with_2057(
    queue_manager: UnderTest, queue: str, program: Program
) -> None:
    """Source: rc2057."""
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    program.put(queue, BODY, report=int(Report.COA), reply_to_queue="SYSTEM.DEFAULT.MODEL.QUEUE")
    got = program.got("SYSTEM.DEAD.LETTER.QUEUE")

    assert Reason.Q_TYPE_ERROR == dead_letter.parse(got.body, encoding=got.descriptor.encoding).reason


@pytest.mark.parametrize("obstacle", ["missing", "inhibited", "full"])
def test_a_report_that_cannot_be_delivered_goes_to_the_dead_letter_queue(
    queue_manager: UnderTest, queue: str, program: Program, obstacle: str
) -> None:
    """The report is behind an MQDLH with the reason. The queue manager writes the MQDLH."""
    queue_manager.administration.alter_queue_manager({"dead_letter_queue": "SYSTEM.DEAD.LETTER.QUEUE"})
    reason = {"missing": Reason.UNKNOWN_OBJECT_NAME, "inhibited": Reason.PUT_INHIBITED, "full": Reason.Q_FULL}[obstacle]
    if obstacle != "missing":
        queue_manager.define("REPLIES", put_inhibited=obstacle == "inhibited", max_depth=0 if obstacle == "full" else 5)
    program.put(queue, BODY, format="MQSTR", report=int(Report.COA_WITH_FULL_DATA), reply_to_queue="REPLIES")

    got = program.got("SYSTEM.DEAD.LETTER.QUEUE")
    header = dead_letter.parse(got.body, encoding=got.descriptor.encoding)

    assert "MQDEAD" == got.descriptor.format
    assert (reason, "REPLIES", queue_manager.name, "MQSTR") == (
        header.reason,
        header.destination_queue,
        header.destination_queue_manager,
        header.format,
    )
    assert ApplicationType.QMGR == header.put_application_type
    assert BODY == got.body[172:]


def test_a_report_that_no_queue_takes_is_dropped(queue: str, program: Program) -> None:
    """DEADQ is blank: the put succeeds."""
    program.put(queue, BODY, report=int(Report.COA), reply_to_queue="NOT.THERE")

    assert program.get(queue) is not None


def test_arrival_and_delivery_can_both_be_confirmed(queue: str, replies: str, program: Program) -> None:
    program.put(queue, BODY, report=int(Report.COA | Report.COD), reply_to_queue=replies)
    program.get(queue)

    assert [Feedback.COA, Feedback.COD] == [program.got(replies).descriptor.feedback for _ in range(2)]


@pytest.mark.parametrize("verb", ["put", "get"])
def test_a_confirmation_counts_for_maxumsgs(
    queue_manager: UnderTest, queue: str, replies: str, program: Program, verb: str
) -> None:
    """Source: rc2024."""
    report = Report.COA if verb == "put" else Report.COD
    if verb == "get":
        program.put(queue, BODY, report=int(report), reply_to_queue=replies)
    queue_manager.administration.alter_queue_manager({"max_uncommitted_messages": 1})

    with refused(Reason.SYNCPOINT_LIMIT_REACHED):
        if verb == "put":
            program.put_in_unit(queue, BODY, report=int(report), reply_to_queue=replies)
        else:
            program.get_in_unit(queue)


def test_the_queue_manager_makes_no_exception_reports(queue_manager: UnderTest, replies: str, program: Program) -> None:
    """A local put that fails causes no report, because the program gets the error."""
    queue_manager.define("CLOSED", put_inhibited=True)
    with refused(Reason.PUT_INHIBITED):
        program.connection.put1(
            "CLOSED", MessageDescriptor(report=int(Report.EXCEPTION), reply_to_queue=replies), BODY, PutOption.NO_SYNCPOINT
        )

    assert 0 == queue_manager.depth(replies)


def test_a_message_got_again_in_its_own_unit_of_work_is_reported_both_ways(queue: str, replies: str, program: Program) -> None:
    program.put_in_unit(queue, BODY, report=int(Report.COA | Report.COD), reply_to_queue=replies)
    program.get_in_unit(queue)
    program.commit()

    assert [Feedback.COA, Feedback.COD] == [program.got(replies).descriptor.feedback for _ in range(2)]


def test_a_report_may_live_as_long_as_the_message_would_have(
    queue_manager: UnderTest, queue: str, replies: str, program: Program
) -> None:
    """With MQRO_PASS_DISCARD_AND_EXPIRY the report has the rest of the expiry, and the discard option."""
    report = Report.COD | Report.PASS_DISCARD_AND_EXPIRY | Report.DISCARD_MSG
    program.put(queue, BODY, expiry_tenths=100, report=int(report), reply_to_queue=replies)
    queue_manager.advance(4)
    program.get(queue)
    got = program.got(replies).descriptor

    assert (60, Report.DISCARD_MSG) == (got.expiry_tenths, got.report)


def test_an_expiration_report_does_not_expire_at_once(
    queue_manager: UnderTest, queue: str, replies: str, program: Program
) -> None:
    report = Report.EXPIRATION | Report.PASS_DISCARD_AND_EXPIRY
    program.put(queue, BODY, expiry_tenths=10, report=int(report), reply_to_queue=replies)
    queue_manager.advance(1)
    program.get(queue)

    assert -1 == program.got(replies).descriptor.expiry_tenths


def test_a_dead_letter_that_is_taken_is_not_confirmed_as_delivered(queue: str, replies: str, program: Program) -> None:
    program.put(queue, BODY, format="MQDEAD", report=int(Report.COD), reply_to_queue=replies)
    program.get(queue)

    assert program.get(replies) is None
