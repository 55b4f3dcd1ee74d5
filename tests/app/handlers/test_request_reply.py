"""A request finds its reply, whichever identifiers the responder copies. A report is not mistaken for the reply.

Source: IBM q097680 (Report): a responder copies MsgId and CorrelId by the report options, and reports go to the reply queue;
JMS 2.0: JMSCorrelationID of a reply is JMSMessageID of the request.
"""

import math

import anyio
import pytest
from msgspec.structs import replace

from mqflow import App, ConfigurationError, Context, Message, RequestFailedError, RequestTimeoutError
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Feedback, MessageType, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

OWN = b"a correlation of my own".ljust(24)
queues = defining()


@pytest.mark.parametrize(
    "asked",
    [
        Report.NONE,
        Report.PASS_CORREL_ID,
        Report.PASS_MSG_ID,
        Report.PASS_CORREL_ID | Report.PASS_MSG_ID,
        Report.COA_WITH_FULL_DATA | Report.COD_WITH_FULL_DATA,
    ],
    ids=repr,
)
async def test_a_reply_is_found_whichever_identifiers_and_reports_were_asked_for(mq: QueueManagerKit, asked: Report) -> None:
    app = App()

    @app.listener("IN")
    async def handle(body: str) -> str:
        return body.upper()

    wanted = MessageDescriptor(report=asked, correlation_id=OWN)
    async with mq.run(app):
        assert "ORDER" == await app.request("IN", "order", reply=str, timeout_s=5, descriptor=wanted)


@pytest.mark.parametrize("convention", ["JMS", "the request's CorrelId", "its MsgId", "none at all"])
async def test_a_reply_is_found_whichever_convention_the_responder_has(mq: QueueManagerKit, convention: str) -> None:
    app = App()

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        asked = message.descriptor
        answer = {
            "JMS": MessageDescriptor(correlation_id=asked.message_id),
            "the request's CorrelId": MessageDescriptor(correlation_id=asked.correlation_id),
            "its MsgId": MessageDescriptor(message_id=asked.message_id),
            "none at all": MessageDescriptor(correlation_id=b"whatever".ljust(24)),
        }[convention]
        await ctx.put(asked.reply_to_queue, "answer", descriptor=replace(answer, message_type=MessageType.REPLY))

    async with mq.run(app):
        assert "answer" == await app.request("IN", "order", reply=str, timeout_s=5, correlation_id=OWN)


def reporting(feedback: int) -> App:
    """Return an application that answers each request with a report of this feedback."""
    app = App()

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        about = MessageDescriptor(message_type=MessageType.REPORT, feedback=feedback, correlation_id=message.message_id)
        await ctx.put(message.descriptor.reply_to_queue, b"", descriptor=about)

    return app


@pytest.mark.parametrize(
    ("feedback", "said"),
    [
        (Feedback.PAN, r"A report about the request came: MQFB_PAN \(275\)\."),
        (Feedback.NAN, r"A report about the request came: MQFB_NAN \(276\)\."),
        (Feedback.COD, "A handler may have handled the request"),
        (70_000, r"A report about the request came: feedback 70000\."),
    ],
)
async def test_the_timeout_error_has_the_feedback_of_the_last_report(mq: QueueManagerKit, feedback: int, said: str) -> None:
    app = reporting(feedback)
    async with mq.run(app):
        with pytest.raises(RequestTimeoutError, match=said) as caught:
            await app.request("IN", "order", reply=str, timeout_s=5)

    assert (0 if feedback == Feedback.COD else feedback) == caught.value.feedback


@pytest.mark.parametrize(
    ("feedback", "said"),
    [
        (Reason.BACKOUT_THRESHOLD_REACHED, r"MQRC_BACKOUT_THRESHOLD_REACHED \(2362\), its handler failed or rejected it"),
        (Reason.UNKNOWN_OBJECT_NAME, r"MQRC_UNKNOWN_OBJECT_NAME \(2085\)\."),
        (Feedback.EXPIRATION, r"MQFB_EXPIRATION \(258\), it expired"),
        (Feedback.NOT_DELIVERED, r"MQFB_NOT_DELIVERED \(284\)\."),
    ],
)
async def test_a_report_of_an_exception_ends_the_wait(mq: QueueManagerKit, feedback: int, said: str) -> None:
    app = reporting(feedback)
    async with mq.run(app):
        began = mq.clock.monotonic()
        with pytest.raises(RequestFailedError, match=said) as caught:
            await app.request("IN", "order", reply=str, timeout_s=60)
        assert mq.clock.monotonic() - began < 30

    assert feedback == caught.value.feedback


async def test_a_request_ends_at_its_timeout_although_the_connection_is_away_longer(mq: QueueManagerKit) -> None:
    took_s = 0.0

    async def outage() -> None:
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(100)

    async with mq.run(app := App()), anyio.create_task_group() as group:
        group.start_soon(outage)
        began = mq.clock.monotonic()
        with pytest.raises(RequestTimeoutError):
            await app.request("IN", "order", reply=str, timeout_s=3)
        took_s = mq.clock.monotonic() - began
        await app.put("IN", "afterwards")  # the next call connects again

    assert 3 == round(took_s, 1)
    assert ["afterwards"] == [found.text() for found in mq.browse("IN")]


@pytest.mark.parametrize("timeout_s", [0, -0.5, math.inf, math.nan, 1e300])
async def test_a_request_that_could_not_expire_at_its_timeout_is_not_put(mq: QueueManagerKit, timeout_s: float) -> None:
    async with mq.run(app := App()):
        with pytest.raises(ValueError, match=r"request\(timeout_s=.*\): it takes more than 0 and at most 99999999 seconds\."):
            await app.request("IN", "order", reply=str, timeout_s=timeout_s)

    assert [] == mq.browse("IN")


async def test_a_request_gets_a_reply_that_comes_after_a_short_outage(mq: QueueManagerKit) -> None:
    app, reply = App(), ""

    @app.listener("IN")
    async def handle(body: str) -> str:
        await anyio.sleep(10)
        return body.upper()

    async def outage() -> None:
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(2)

    async with mq.run(app), anyio.create_task_group() as group:
        group.start_soon(outage)
        reply = await app.request("IN", "order", reply=str, timeout_s=120)

    assert "ORDER" == reply


async def test_a_request_for_a_reply_of_an_impossible_type_is_not_put(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        with pytest.raises(ConfigurationError, match=r"request\(reply=\.\.\.\): JSON cannot be decoded to Message"):
            await app.request("IN", "order", reply=Message, timeout_s=5)

    assert 0 == mq.depth("IN")
