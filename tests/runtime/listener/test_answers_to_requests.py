"""The sender of a request that cannot be handled gets an answer at once, in the unit of work that moves its request.

The answer is an addition of mqflow. IBM q032680: only a sender that asks for exception reports gets one, and only if the
message missed the backout requeue queue.
"""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from mqflow import App, Backout, Pace, Reject, RequestFailedError, RequestTimeoutError
from mqflow.events import ReportSent
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Feedback, MessageType, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import Found, QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

AT_ONCE = Backout(pace=Pace(first_s=0, max_s=0))
TIMEOUT_S = 60.0
MESSAGE_ID, CORRELATION_ID = b"M" * 24, b"C" * 24
queues = defining("BOQ", "DLQ", "REPLIES", dead_letter_queue="DLQ", bothresh=3, boqname="BOQ")


def failing(backout: Backout = AT_ONCE, error: Exception | None = None, **options: Any) -> App:
    app = App()

    @app.listener("IN", backout=backout, **options)
    async def handle(order: dict[str, int]) -> str:
        if options:
            await anyio.sleep(TIMEOUT_S)
        raise error or Reject("closed account")

    return app


async def put_request(mq: QueueManagerKit, body: object = None, **descriptor: Any) -> MessageDescriptor:
    fields: dict[str, Any] = {
        "message_type": MessageType.REQUEST,
        "reply_to_queue": "REPLIES",
        "message_id": MESSAGE_ID,
    } | descriptor
    put = await mq.put("IN", body or {"number": 7}, correlation_id=CORRELATION_ID, **fields)
    return put.descriptor


async def refused(mq: QueueManagerKit, app: App, payload: object, **keywords: Any) -> RequestFailedError:
    async with mq.run(app):
        began = mq.clock.monotonic()
        with pytest.raises(RequestFailedError) as caught:
            await app.request("IN", payload, reply=str, timeout_s=TIMEOUT_S, **keywords)
        assert mq.clock.monotonic() - began < TIMEOUT_S / 2
    return caught.value


async def test_a_rejected_request_fails_at_once(mq: QueueManagerKit) -> None:
    error = await refused(mq, failing(), {"number": 7})

    assert Reason.BACKOUT_THRESHOLD_REACHED == error.feedback
    assert (
        f"The request {error.message_id.hex()} on IN gets no reply. A report about it came: "
        "MQRC_BACKOUT_THRESHOLD_REACHED (2362), its handler failed or rejected it, and it was moved or discarded."
    ) == str(error)


async def test_a_request_that_does_not_decode_fails_with_the_code_for_its_format(mq: QueueManagerKit) -> None:
    error = await refused(mq, failing(), "not JSON")

    assert Reason.JMS_FORMAT_ERROR == error.feedback


async def test_a_request_that_fails_too_often_fails_at_its_last_delivery(mq: QueueManagerKit) -> None:
    error = await refused(mq, failing(error=ValueError("no stock")), {"number": 7})

    assert Reason.BACKOUT_THRESHOLD_REACHED == error.feedback


async def test_a_request_whose_handler_runs_out_of_time_fails_when_it_is_moved(mq: QueueManagerKit) -> None:
    error = await refused(mq, failing(time_limit_s=2.0), {"number": 7})

    assert Reason.BACKOUT_THRESHOLD_REACHED == error.feedback


async def test_a_persistent_request_gets_its_answer_on_a_temporary_queue_too(mq: QueueManagerKit) -> None:
    """A temporary dynamic queue takes no persistent message (2048)."""
    error = await refused(mq, failing(), {"number": 7}, persistent=True)

    assert Reason.BACKOUT_THRESHOLD_REACHED == error.feedback
    assert 0 == mq.depth("DLQ")


async def answers(mq: QueueManagerKit, app: App, **descriptor: Any) -> list[Found]:
    async with mq.run(app):
        await put_request(mq, **descriptor)
        await mq.drain("BOQ")
    return mq.browse("REPLIES")


async def test_any_requester_finds_the_answer_like_its_reply(mq: QueueManagerKit) -> None:
    """IBM q097680: CorrelId of a reply is MsgId of the request. Feedback has a meaning in messages of type MQMT_REPORT."""
    [answer] = await answers(mq, failing(), format="MQHRF2x", ccsid=819)

    assert (MessageType.REPORT, Reason.BACKOUT_THRESHOLD_REACHED) == (
        answer.descriptor.message_type,
        answer.descriptor.feedback,
    )
    assert MESSAGE_ID == answer.correlation_id
    assert ("", b"") == (answer.descriptor.format, answer.data)


async def test_the_report_options_choose_the_identifiers_of_the_answer(mq: QueueManagerKit) -> None:
    [answer] = await answers(mq, failing(), report=int(Report.PASS_CORREL_ID | Report.PASS_MSG_ID))

    assert (MESSAGE_ID, CORRELATION_ID) == (answer.message_id, answer.correlation_id)


async def test_a_requester_that_asks_for_exception_reports_with_data_gets_the_data(mq: QueueManagerKit) -> None:
    [answer] = await answers(mq, failing(), report=int(Report.EXCEPTION_WITH_FULL_DATA))

    assert b'{"number":7}' == answer.data


@pytest.mark.parametrize(
    "descriptor",
    [{"message_type": MessageType.DATAGRAM}, {"message_type": MessageType.REPORT}, {"message_type": MessageType.REPLY}],
    ids=["a datagram", "a report", "a reply"],
)
async def test_a_message_that_is_no_request_gets_no_answer(mq: QueueManagerKit, descriptor: dict[str, int]) -> None:
    assert [] == await answers(mq, failing(), **descriptor)


async def test_a_listener_can_leave_requests_without_an_answer(mq: QueueManagerKit) -> None:
    app = failing(Backout(answer_requests=False))

    async with mq.run(app):
        with pytest.raises(RequestTimeoutError, match=r"No reply to the request 414d5120.* on IN came within 60 s"):
            await app.request("IN", {"number": 7}, reply=str, timeout_s=TIMEOUT_S)

    assert [] == mq.told(ReportSent)


async def test_a_refused_answer_is_dropped_and_its_request_is_moved(mq: QueueManagerKit) -> None:
    async with mq.run(failing()):
        await put_request(mq, reply_to_queue="NOWHERE")
        moved = await mq.drain("BOQ")

    assert 1 == len(moved)
    assert 0 == mq.depth("DLQ")
    assert [("NOWHERE", Reason.UNKNOWN_OBJECT_NAME)] == [(sent.reply_to_queue, sent.reason) for sent in mq.told(ReportSent)]


async def test_a_request_that_stays_on_its_queue_gets_no_answer_yet(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)", "ALTER QLOCAL(DLQ) PUT(DISABLED)")

    async with mq.run(failing()):
        await put_request(mq)
        await anyio.sleep(10)
        assert [] == mq.browse("REPLIES")
        mq.mqsc("ALTER QLOCAL(BOQ) PUT(ENABLED)")
        await mq.drain("BOQ", within_s=120)

    assert 1 == len(mq.browse("REPLIES"))


def refused_put(mq: QueueManagerKit) -> Fault:
    return Fault(verb="MQPUT", object_name="BOQ", reason=Reason.Q_FULL)


def lost_before(mq: QueueManagerKit) -> Fault:
    return Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.BEFORE)


def lost_after(mq: QueueManagerKit) -> Fault:
    return Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER)


@pytest.mark.parametrize("fault", [refused_put, lost_before, lost_after])
async def test_there_is_one_answer_for_one_move(mq: QueueManagerKit, fault: Callable[[QueueManagerKit], Fault]) -> None:
    """The answer is in the unit of work of the move: both take effect, or none does."""
    app = failing()
    async with mq.run(app):
        mq.faults.add(fault(mq))
        await put_request(mq)
        await anyio.sleep(120)

    moved = len(mq.browse("BOQ")) + len(mq.browse("DLQ"))
    assert (1, 1) == (moved, len(mq.browse("REPLIES")))


async def test_an_expired_request_fails_when_its_report_comes(mq: QueueManagerKit) -> None:
    """The queue manager reports the expiry of a request that asks for such a report."""
    app = App()
    wanted = MessageDescriptor(report=Report.EXPIRATION)

    async with mq.run(app), anyio.create_task_group() as group:
        group.start_soon(_let_expire, mq)
        with pytest.raises(RequestFailedError, match=r"MQFB_EXPIRATION \(258\), it expired before it was handled") as caught:
            await app.request("IN", b"order", reply=bytes, timeout_s=TIMEOUT_S, expiry=1, descriptor=wanted)
        assert Feedback.EXPIRATION == caught.value.feedback


async def _let_expire(mq: QueueManagerKit) -> None:
    await anyio.sleep(5)
    assert [] == mq.browse("IN")  # a get or a browse finds expired messages
