"""The third seed, sentence by sentence, on the embedded queue manager: IBM, "JMS 2.0 delivery delay".

Each test's docstring is the sentence that it shows; `ours` marks behaviour that the page leaves open.
"""

from collections.abc import Callable
from datetime import timedelta

import anyio
import pytest

from mqflow import App, Context, MQIError
from mqflow.app.config.settings import Settings
from mqflow.events import (
    DelayedDelivered,
    DelayedRefused,
    DelayProcessorStarted,
    DelayProcessorStopped,
    Reconnected,
    ReportSent,
)
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.delay import parse
from mqflow.mqi.options import Feedback, GetOption, MatchOption, MessageFlag, MessageType, OpenOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Discard, Return
from mqflow.runtime.connection.session import open_session
from mqflow.runtime.delay.due_messages import OrderedMessages
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.runtime.delay.stage import Stager, moment
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import GetOptions
from mqflow.world import THREADS, World
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
LATE_S = 0.06
"""The largest lateness in virtual time: the processor checks every 50 ms for messages that became due sooner."""


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    mq.define("IN")
    mq.define("LATER", defprty=3, defpsist="YES")
    mq.define("REPORTS")


async def came_at(mq: QueueManagerKit, queue: str = "LATER") -> float:
    """Wait until the next message is on the queue, and get it."""
    while not mq.depth(queue):  # noqa: ASYNC110 - what is waited for is another program's queue
        await anyio.sleep(0.01)
    now = mq.clock.monotonic()
    await mq.drain(queue, quiet_s=0)
    return now


# -- the delay


async def test_it_is_not_delivered_until_after_the_delay(mq: QueueManagerKit) -> None:
    """The queue manager does not deliver the message until after the specified delivery delay has elapsed."""
    async with mq.run(app := App()):
        sent = mq.clock.monotonic()
        await app.put("LATER", b"x", delay=timedelta(seconds=5))

        took = await came_at(mq) - sent

    assert 5 <= took <= 5 + LATE_S
    assert [5_000] == [event.delay_ms for event in mq.told(DelayedDelivered)]


async def test_a_shorter_delay_overtakes_a_longer_one(mq: QueueManagerKit) -> None:
    """This value is added to the time at which the message is sent."""
    async with mq.run(app := App()):
        for delay_s in (30, 2, 10):
            await app.put("LATER", b"%d" % delay_s, delay=delay_s)
        await anyio.sleep(40)

    assert [b"2", b"10", b"30"] == [found.body for found in mq.browse("LATER")]


async def test_the_message_arrives_as_it_was_sent(mq: QueueManagerKit) -> None:
    """Messages are placed on this queue with a header that indicates the delivery delay ...; everything is restored."""
    async with mq.run(app := App()):
        put = await app.put(
            "LATER", "text", delay=1, properties={"colour": "blue"}, correlation_id=b"C" * 24, reply_to="REPORTS"
        )
        [found] = await mq.drain("LATER")

    assert ("text", {"colour": "blue"}) == (found.text(), found.properties)
    assert (put.descriptor.message_id, b"C" * 24) == (found.message_id, found.correlation_id)
    sent, got = put.descriptor, found.descriptor
    assert (sent.put_date, sent.put_time, sent.user_identifier) == (got.put_date, got.put_time, got.user_identifier)
    assert (MessageType.REQUEST, "REPORTS") == (got.message_type, got.reply_to_queue)


async def test_the_original_msgid_is_the_correlid_on_the_staging_queue(mq: QueueManagerKit) -> None:
    """It is put to this queue with a new message id. The original message id is placed in the correlation id."""
    async with mq.run(app := App()):
        put = await app.put("LATER", b"x", delay=3_600)
        [staged] = mq.browse(STAGING)

    assert put.descriptor.message_id == staged.correlation_id != staged.message_id
    assert ("LATER", 3_600_000) == (parse(staged.data).target, parse(staged.data).delay_ms)


async def test_a_delayed_message_can_be_taken_back(mq: QueueManagerKit) -> None:
    """This correlation id allows an application to retrieve a message from the staging queue when required."""
    async with mq.run(app := App()):
        put = await app.put("LATER", b"x", delay=60)
        connection = mq.queue_manager.connect()
        handle = connection.open(STAGING, OpenOption.INPUT_SHARED)
        wanted = GetOptions(
            options=GetOption.NO_SYNCPOINT, match=MatchOption.CORREL_ID, correlation_id=put.descriptor.message_id
        )
        assert connection.get(handle, wanted) is not None
        connection.disconnect()
        await anyio.sleep(120)

    assert (0, 0) == (mq.depth("LATER"), mq.depth(STAGING))


@pytest.mark.parametrize(("first", "then", "persistence"), [("YES", "NO", 1), ("NO", "YES", 0)])
async def test_persistence_and_priority_are_those_of_the_first_resolution(
    mq: QueueManagerKit, first: str, then: str, persistence: int
) -> None:
    """Persistence or priority according to the queue definition ... is set on the first resolution and not the second."""
    mq.mqsc(f"ALTER QLOCAL(LATER) DEFPSIST({first})")
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=5, persistent=None)
        mq.mqsc(f"ALTER QLOCAL(LATER) DEFPRTY(9) DEFPSIST({then})")
        [found] = await mq.drain("LATER")

    assert (3, persistence) == (found.descriptor.priority, found.descriptor.persistence)


async def test_the_name_is_resolved_again_at_the_delivery(mq: QueueManagerKit) -> None:
    """If the message is sent to a queue, resolution is driven twice."""
    mq.mqsc("DEFINE QALIAS(TO) TARGET(IN)")
    async with mq.run(app := App()):
        await app.put("TO", b"x", delay=5, persistent=True)
        mq.mqsc("ALTER QALIAS(TO) TARGET(LATER)")
        [found] = await mq.drain("LATER")

    assert b"x" == found.body


# -- units of work


async def test_a_handler_sends_it_in_its_unit_of_work(mq: QueueManagerKit) -> None:
    """The message is not placed on the staging queue until the unit of work is committed."""
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("LATER", body, delay=timedelta(seconds=10))
        assert not mq.browse(STAGING)
        if not ctx.message.backout_count:
            raise ValueError("once")

    async with mq.run(app):
        await mq.put("IN", b"x")
        found = await mq.drain("LATER", quiet_s=60)

    assert [b"x"] == [each.body for each in found]


async def test_a_delayed_message_cannot_be_got_in_its_own_unit_of_work(mq: QueueManagerKit) -> None:
    """To get a message again although its unit of work has not committed: this technique does not work with delivery delay."""
    async with mq.run(app := App()), app.consumer("LATER") as consumer:
        await consumer.put("LATER", b"at once")
        await consumer.put("LATER", b"later", delay=5)
        first, second = await consumer.receive(), await consumer.receive(wait_ms=10_000)
        await consumer.commit()

    assert first is not None
    assert (b"at once", None) == (first.body, second)


async def test_the_delay_counts_from_the_send_and_not_from_the_commit(mq: QueueManagerKit) -> None:
    """This value is added to the time at which the message is sent and gives the earliest time at which it can be got."""
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("LATER", body, delay=10)
        await anyio.sleep(8)

    async with mq.run(app):
        await mq.put("IN", b"x")
        sent = mq.clock.monotonic()
        took = await came_at(mq) - sent

    assert 10 <= took <= 10 + LATE_S


async def test_a_publisher_can_delay_its_messages(mq: QueueManagerKit) -> None:
    """An application can specify a delivery delay ... by using MessageProducer.setDeliveryDelay."""
    app = App()

    @app.publisher("LATER", delay=5)
    @app.listener("IN")
    async def handle(body: bytes) -> bytes:
        return body

    async with mq.run(app):
        await mq.put("IN", b"x")
        sent = mq.clock.monotonic()
        took = await came_at(mq) - sent

    assert 5 <= took <= 5 + LATE_S


# -- restrictions


def test_a_publisher_refuses_impossible_values_at_its_declaration() -> None:
    """This checking is done on calling setTimeToLive or setDeliveryDelay or send methods."""
    with pytest.raises(MQIError, match="MQRC_EXPIRY_ERROR"):
        App().publisher("LATER", expiry_s=4, delay=5)


@pytest.mark.parametrize("seconds", [0.14, 0.25, 1.001, 5])
async def test_an_expiry_of_the_same_length_is_not_less_than_the_delay(mq: QueueManagerKit, seconds: float) -> None:
    """Any attempt to set a time to live value that is less than a previously specified nonzero delivery delay."""
    async with mq.run(App()) as app:
        await app.put("LATER", b"x", delay=seconds, expiry=timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("alter", "reason"),
    [("PUT(DISABLED)", Reason.PUT_INHIBITED), ("MAXMSGL(1)", Reason.MSG_TOO_BIG_FOR_Q), ("MAXDEPTH(1)", Reason.Q_FULL)],
)
async def test_basic_checks_at_the_send(mq: QueueManagerKit, alter: str, reason: Reason) -> None:
    """These checks include whether the queue is put disabled, if the message is bigger ..., and if the queue is full."""
    await mq.put("LATER", b"is there")
    mq.mqsc(f"ALTER QLOCAL(LATER) {alter}")
    async with mq.run(app := App()):
        with pytest.raises(MQIError) as refused:
            await app.put("LATER", b"a body", delay=5)

    assert reason == refused.value.reason
    assert not mq.depth(STAGING)


async def test_a_queue_that_is_not_there_is_refused_at_the_send(mq: QueueManagerKit) -> None:
    """Any failure to send a message with delivery delay results in the client throwing ... a suitable error message."""
    async with mq.run(app := App()):
        with pytest.raises(MQIError, match=r"NOWHERE.*MQRC_UNKNOWN_OBJECT_NAME"):
            await app.put("NOWHERE", b"x", delay=5)


async def test_a_full_staging_queue_is_named(mq: QueueManagerKit) -> None:
    """In some situations, the error message might apply to the target destination, or the staging queue, or both."""
    mq.mqsc(f"ALTER QLOCAL({STAGING}) MAXDEPTH(0)")
    async with mq.run(app := App()):
        with pytest.raises(MQIError, match=rf"LATER.*MQRC_Q_FULL.*{STAGING}: MAXDEPTH is 0"):
            await app.put("LATER", b"x", delay=5)


async def test_a_message_with_no_room_on_the_staging_queue_is_refused_in_its_name(mq: QueueManagerKit) -> None:
    """The system queue must be altered so that its MAXMSGL and MAXDEPTH attributes are sufficient."""
    mq.mqsc(f"ALTER QLOCAL({STAGING}) MAXMSGL(1000)")
    async with mq.run(app := App()):
        with pytest.raises(MQIError, match=rf"LATER.*MQRC_MSG_TOO_BIG_FOR_Q.*{STAGING}: 1256 bytes"):
            await app.put("LATER", bytes(1_000), delay=5)


@pytest.mark.parametrize(
    ("clustered", "reason"),
    [
        ("CLUSTER(SALES) DEFBIND(OPEN)", Reason.OPTIONS_ERROR),
        ("CLUSTER(SALES) DEFBIND(GROUP)", Reason.OPTIONS_ERROR),
        ("CLUSTER(SALES) DEFBIND(NOTFIXED)", Reason.NONE),
        ("CLUSTER(' ') DEFBIND(OPEN)", Reason.NONE),
    ],
)
async def test_a_cluster_queue_takes_a_delayed_message_only_if_its_binding_is_not_fixed(
    mq: QueueManagerKit, clustered: str, reason: Reason
) -> None:
    """Not supported for clustered destinations that have a DEFBIND value other than MQBND_BIND_NOT_FIXED."""
    mq.mqsc(f"ALTER QLOCAL(LATER) {clustered}")
    app, reasons = App(), [Reason.NONE]
    async with mq.run(app):
        try:
            await app.put("LATER", b"x", delay=5)
        except MQIError as refused:
            reasons.append(Reason(refused.reason))

    assert reason == reasons[-1]


# -- expiry


async def test_the_expiry_counts_from_the_put(mq: QueueManagerKit) -> None:
    """An expiry interval of 20,000 ms and a delivery delay of 5,000 ms ...; 15 seconds from the put, 50 tenths are left."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=5, expiry=20)
        await anyio.sleep(15)
        [found] = mq.browse("LATER")

    assert 49 <= found.descriptor.expiry_tenths <= 50


async def test_a_message_that_expires_on_the_staging_queue_is_reported_without_the_header(mq: QueueManagerKit) -> None:
    """The report generated is for the original message as sent by the application, the header ... is removed."""
    await mq.put("LATER", b"a body", delay=5, expiry=6, reply_to_queue="REPORTS", report=int(Report.EXPIRATION_WITH_FULL_DATA))
    mq.clock.advance(10)
    async with mq.run(App()):
        [report] = await mq.drain("REPORTS")

    assert (b"a body", Feedback.EXPIRATION) == (report.body, report.descriptor.feedback)
    assert (0, 0) == (mq.depth("LATER"), mq.depth(STAGING))


# -- stopping and starting


async def test_put_disabled_on_the_staging_queue_stops_the_processor_and_put_enabled_starts_it(mq: QueueManagerKit) -> None:
    """Should you need to stop the delivery delay processor for any reason, set the PUT attribute ... to DISABLED."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=5)
        await anyio.sleep(1)
        mq.mqsc(f"ALTER QLOCAL({STAGING}) PUT(DISABLED)")
        await anyio.sleep(30)
        assert not mq.depth("LATER")
        [stopped] = mq.told(DelayProcessorStopped)
        mq.mqsc(f"ALTER QLOCAL({STAGING}) PUT(ENABLED)")
        await mq.drain("LATER")

    assert "PUT(ENABLED) starts it" in stopped.why
    assert 2 == len(mq.told(DelayProcessorStarted))


async def test_a_staging_queue_that_comes_back_starts_the_processor(mq: QueueManagerKit) -> None:
    """If the staging queue is later defined, or altered to be get enabled, the delivery delay processor restarts."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=5)
        mq.mqsc(f"ALTER QLOCAL({STAGING}) GET(DISABLED)")
        await anyio.sleep(30)
        assert not mq.depth("LATER")
        mq.mqsc(f"ALTER QLOCAL({STAGING}) GET(ENABLED)")

        [found] = await mq.drain("LATER")

    assert b"x" == found.body


@pytest.mark.parametrize("queue", [STAGING, "STAGED"])
async def test_get_disabled_on_the_staging_queue_is_one_event_and_its_end_another(mq: QueueManagerKit, queue: str) -> None:
    """If the staging queue ... is disabled for gets ..., the delivery delay processor shuts down."""
    mq.define("STAGED")
    async with mq.run(app := App(settings=Settings(delay_queue=queue))):
        await app.put("LATER", b"x", delay=5)
        await anyio.sleep(1)
        mq.mqsc(f"ALTER QLOCAL({queue}) GET(DISABLED)")
        await anyio.sleep(600)
        [stopped] = mq.told(DelayProcessorStopped)
        assert 1 == len([event for event in mq.told(DelayProcessorStarted) if event.queue == queue])
        mq.mqsc(f"ALTER QLOCAL({queue}) GET(ENABLED)")
        await mq.drain("LATER")

    assert (queue, Reason.GET_INHIBITED) == (stopped.queue, stopped.reason)
    assert 2 == len([event for event in mq.told(DelayProcessorStarted) if event.queue == queue])


async def test_a_staging_queue_that_is_defined_later_starts_the_processor(mq: QueueManagerKit) -> None:
    """If the staging queue has not been defined ... shuts down. If the staging queue is later defined ... restarts."""
    async with mq.run(app := App(settings=Settings(delay_queue="STAGED"))):
        with pytest.raises(MQIError, match="MQRC_FUNCTION_NOT_SUPPORTED"):
            await app.put("LATER", b"x", delay=5)
        await anyio.sleep(30)
        mq.define("STAGED")
        await app.put("LATER", b"x", delay=5)

        [found] = await mq.drain("LATER")

    assert b"x" == found.body
    assert ["STAGED"] == [event.queue for event in mq.told(DelayProcessorStopped)]


async def test_it_goes_on_after_an_outage(mq: QueueManagerKit) -> None:
    """The delay processor ... is automatically restarted in the event of a recoverable failure."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=5)
        await anyio.sleep(1)
        mq.faults.break_connections()
        [found] = await mq.drain("LATER")

    assert b"x" == found.body
    assert mq.told(Reconnected)


async def test_a_delay_on_the_alias_of_a_topic_is_a_delayed_publication(mq: QueueManagerKit) -> None:
    """Target subscriptions for publications are matched when the JMS application calls the send method."""
    mq.mqsc(
        "DEFINE TOPIC(PRICES) TOPICSTR('prices') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)",
        "DEFINE QALIAS(TO.PRICES) TARGTYPE(TOPIC) TARGET(PRICES)",
        "DEFINE SUB(BEFORE) TOPICSTR('prices') DEST(LATER)",
    )
    async with mq.run(app := App()):
        await app.put("TO.PRICES", b"70", delay=5)
        mq.mqsc("DEFINE SUB(AFTER) TOPICSTR('prices') DEST(IN)")
        [found] = await mq.drain("LATER")

    assert b"70" == found.body
    assert 0 == mq.depth("IN")


async def test_a_temporary_queue_takes_a_delayed_message_like_any_other(mq: QueueManagerKit) -> None:
    """The first resolution decides about persistence: a temporary dynamic queue takes no persistent message."""
    app = App()
    connection = mq.queue_manager.connect()
    handle = connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", OpenOption.INPUT_SHARED)
    async with mq.run(app):
        await app.put(handle.name, b"x", delay=5)
        await anyio.sleep(10)

    got = connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
    assert got is not None
    assert (b"x", 0) == (got.body, got.descriptor.persistence)


# -- failure to put


async def refused(mq: QueueManagerKit, alter: str = "PUT(DISABLED)", **put: int | str) -> None:
    """Send a message that its queue refuses when it is due, and let a minute pass."""
    await mq.put("LATER", b"a body", delay=5, persistent=True, **put)  # type: ignore[arg-type]  # fields by name
    mq.mqsc(f"ALTER QLOCAL(LATER) {alter}")
    await run_for(mq, 60, App())


async def test_a_due_message_that_its_target_refuses_goes_to_the_dead_letter_queue(mq: QueueManagerKit) -> None:
    """As "indicated in its report options", the message is "either discarded or sent to the DLQ"."""
    await refused(mq)
    [dead] = mq.browse(DLQ)

    assert (b"a body", Reason.PUT_INHIBITED, "LATER") == (dead.body, dead.why.reason, dead.why.queue)
    assert [DeadLetter(DLQ, Reason.PUT_INHIBITED)] == [event.disposition for event in mq.told(DelayedRefused)]


async def test_a_due_message_that_its_target_refuses_is_discarded_on_request(mq: QueueManagerKit) -> None:
    """As "indicated in its report options", the message is "either discarded or sent to the DLQ"."""
    await refused(mq, report=int(Report.DISCARD_MSG))

    assert (0, 0) == (mq.depth(DLQ), mq.depth(STAGING))
    assert [Discard] == [type(event.disposition) for event in mq.told(DelayedRefused)]


async def test_an_exception_report_is_sent(mq: QueueManagerKit) -> None:
    """If the action is successful an exception report is generated and sent to the specified queue, if requested."""
    await refused(mq, reply_to_queue="REPORTS", report=int(Report.EXCEPTION_WITH_FULL_DATA))
    [report] = mq.browse("REPORTS")

    assert (b"a body", Reason.PUT_INHIBITED) == (report.body, report.descriptor.feedback)
    assert ["REPORTS"] == [event.reply_to_queue for event in mq.told(ReportSent)]


async def test_a_report_that_cannot_be_sent_goes_to_the_dead_letter_queue(mq: QueueManagerKit) -> None:
    """If the report message could not be sent, the report message is sent to the dead letter queue."""
    await refused(mq, reply_to_queue="NOWHERE", report=int(Report.EXCEPTION | Report.DISCARD_MSG))
    [dead] = mq.browse(DLQ)

    assert (MessageType.REPORT, Reason.UNKNOWN_OBJECT_NAME) == (dead.descriptor.message_type, dead.why.reason)


async def test_a_persistent_message_whose_report_is_refused_is_tried_again(mq: QueueManagerKit) -> None:
    """All changes are discarded and the original message rolled back and redelivered later."""
    mq.mqsc("ALTER QMGR DEADQ(' ')")
    await mq.put(
        "LATER", b"x", delay=5, persistent=True, reply_to_queue="NOWHERE", report=int(Report.EXCEPTION | Report.DISCARD_MSG)
    )
    mq.mqsc("ALTER QLOCAL(LATER) PUT(DISABLED)")
    async with mq.run(App()):
        await anyio.sleep(10)
        assert 1 == mq.depth(STAGING)
        mq.mqsc("ALTER QLOCAL(LATER) PUT(ENABLED)")
        [found] = await mq.drain("LATER")

    assert b"x" == found.body


async def test_a_non_persistent_message_whose_report_is_refused_is_still_moved(mq: QueueManagerKit) -> None:
    """If the message is non-persistent the report message is discarded, but other changes are committed."""
    mq.mqsc("ALTER QMGR DEADQ(' ')")
    await mq.put(
        "LATER", b"x", delay=5, persistent=False, reply_to_queue="NOWHERE", report=int(Report.EXCEPTION | Report.DISCARD_MSG)
    )
    mq.mqsc("ALTER QLOCAL(LATER) PUT(DISABLED)")
    await run_for(mq, 60, App())

    assert (0, 0) == (mq.depth("LATER"), mq.depth(STAGING))


async def test_a_message_that_no_queue_takes_is_tried_again_later(mq: QueueManagerKit) -> None:
    """If this action fails, then an attempt is made to put the message later."""
    mq.mqsc("ALTER QMGR DEADQ(' ')")
    await mq.put("LATER", b"x", delay=5, persistent=True)
    mq.mqsc("ALTER QLOCAL(LATER) PUT(DISABLED)")
    async with mq.run(app := App()):
        await anyio.sleep(100)
        await app.put("IN", b"another", delay=1)
        assert 1 == mq.depth("IN") + mq.depth(STAGING) - 1  # the message blocks no other
        mq.mqsc("ALTER QLOCAL(LATER) PUT(ENABLED)")
        [found] = await mq.drain("LATER", within_s=200)

    assert b"x" == found.body
    tried = [event for event in mq.told(DelayedRefused) if isinstance(event.disposition, Return)]
    assert 5 <= len(tried) <= 10  # with growing pauses


async def test_a_target_that_is_deleted_meanwhile_sends_the_message_to_the_dead_letter_queue(mq: QueueManagerKit) -> None:
    """Resolution is driven ... once by the queue manager when it takes the message off the staging queue."""
    await mq.put("LATER", b"x", delay=5)
    mq.mqsc("DELETE QLOCAL(LATER)")
    await run_for(mq, 60, App())
    [dead] = mq.browse(DLQ)

    assert (b"x", Reason.UNKNOWN_OBJECT_NAME, "LATER") == (dead.body, dead.why.reason, dead.why.queue)


async def test_a_message_that_mqflow_did_not_stage_stays_on_the_queue(mq: QueueManagerKit) -> None:
    """Ours: a processor leaves a message without the header of mqflow on the staging queue, and goes on."""
    app = App()
    await mq.put(STAGING, b"not staged")
    async with mq.run(app):
        await app.put("LATER", b"x", delay=1)
        await mq.drain("LATER")

    assert [b"not staged"] == [found.body for found in mq.browse(STAGING)]


# -- time


async def test_several_processors_deliver_each_message_once(mq: QueueManagerKit) -> None:
    """Ours: any number of processors, exactly once."""
    app = App()
    app.delay_processor(concurrency=4)
    async with mq.run(app):
        for number in range(40):
            await app.put("LATER", b"%d" % number, delay=5)
        await anyio.sleep(10)

    assert sorted(b"%d" % number for number in range(40)) == sorted(found.body for found in mq.browse("LATER"))
    assert 40 == len(mq.told(DelayedDelivered))


async def test_messages_of_other_programs_on_the_queue_managers_own_queue_are_delivered_too(mq: QueueManagerKit) -> None:
    """Ours: a command, or the publication of a subscriber, does not know the application's `delay_queue`."""
    mq.define("STAGED")
    async with mq.run(app := App(settings=Settings(delay_queue="STAGED"))):
        await app.put("LATER", b"mine", delay=5)
        await mq.put("LATER", b"theirs", delay=5)
        await anyio.sleep(10)

    assert [b"mine", b"theirs"] == sorted(found.body for found in mq.browse("LATER"))


async def test_a_message_that_is_due_sooner_is_not_late(mq: QueueManagerKit) -> None:
    """Ours: a processor that waits for one message is woken for another."""
    async with mq.run(app := App()):
        await app.put("IN", b"tomorrow", delay=86_400)
        await anyio.sleep(10.1)
        sent = mq.clock.monotonic()
        await mq.put("LATER", b"soon", delay=0.3)

        assert 0.3 <= await came_at(mq) - sent <= 0.32


async def test_an_application_that_stops_does_not_wait_for_later_messages(mq: QueueManagerKit) -> None:
    """Ours: messages wait on the staging queue, and no worker waits for them."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=86_400)
        await anyio.sleep(10.1)
        stopped = mq.clock.monotonic()

    assert stopped == mq.clock.monotonic()


async def test_a_message_staged_between_the_look_and_the_watch_is_found(mq: QueueManagerKit) -> None:
    """Ours: another thread can stage a message at any moment."""
    await mq.put("LATER", b"tomorrow", delay=86_400)
    session = await open_session(mq.queue_manager, THREADS)
    handle = session.connection.open(STAGING, OpenOption.BROWSE)

    def stage_and_watch(_wake: Callable[[], None]) -> Callable[[], None]:
        Stager(STAGING, World(mq.clock, mq.random)).put_on(session.connection, "LATER", MessageDescriptor(), b"soon", 1_000)
        session.connection.commit()
        return lambda: None

    staged = OrderedMessages(session, handle, stage_and_watch)
    assert await staged.soonest(moment(mq.clock)) is not None
    began = mq.clock.monotonic()
    await staged.wait(60_000)

    assert began == mq.clock.monotonic()
    await session.close()


async def test_a_delay_of_nothing_is_an_ordinary_put(mq: QueueManagerKit) -> None:
    """Messages that have a nonzero delivery delay are placed on this queue."""
    async with mq.run(app := App()):
        await app.put("LATER", b"x", delay=0)

        assert (1, 0) == (mq.depth("LATER"), mq.depth(STAGING))


async def test_a_thousand_jumps_of_the_wall_clock_make_no_message_early_or_late(mq: QueueManagerKit) -> None:
    """Ours: never early by the monotonic clock, even if the calendar jumps: by a second, or by ten years (R18)."""
    chance = SeededRandom(18)
    app = App()
    due: dict[bytes, float] = {}
    async with mq.run(app):
        for number in range(50):
            delay_s = 1 + chance.random() * 99
            put = await app.put("LATER", b"%d" % number, delay=delay_s)
            due[put.descriptor.message_id] = mq.clock.monotonic() + delay_s
            for _ in range(20):
                mq.clock.jump_wall((chance.random() - 0.5) * 10 ** (chance.random() * 8.8))
                await anyio.sleep(chance.random() / 10)
        await anyio.sleep(110)

    late_ms = [event.late_ms for event in mq.told(DelayedDelivered)]
    assert due.keys() == {found.message_id for found in mq.browse("LATER")}
    assert max(late_ms) <= LATE_S * 1_000


async def test_no_message_is_there_before_it_is_due(mq: QueueManagerKit) -> None:
    """Ours: seen by the clock that never jumps, and by a program that only browses the queue."""
    async with mq.run(app := App()):
        sent = mq.clock.monotonic()
        for delay_ms in range(100, 2_000, 37):
            await app.put("LATER", b"%d" % delay_ms, delay=delay_ms / 1_000)
            mq.clock.jump_wall(5_000 - delay_ms * 7)
        early = []
        while mq.depth(STAGING):
            passed_ms = (mq.clock.monotonic() - sent) * 1_000
            early += [found.body for found in mq.browse("LATER") if int(found.body) > passed_ms + 1]
            await anyio.sleep(0.005)

    assert not early


BAD_DELAYS = [-1, -0.001, float("nan"), float("inf"), timedelta(seconds=-1), 101 * 366 * 86_400]


@pytest.mark.parametrize("delay", BAD_DELAYS, ids=str)
async def test_every_put_refuses_an_invalid_delay(mq: QueueManagerKit, delay: float | timedelta) -> None:
    """Ours: negative, not a number, beyond a century; from an application, a handler, a publisher, for a publication."""
    reasons: list[int] = []
    app = App()

    @app.listener("IN")
    async def handle(ctx: Context) -> None:
        for put in (ctx.put("LATER", b"x", delay=delay), ctx.publish("a/b", b"x", delay=delay)):
            with pytest.raises(MQIError) as refused:
                await put
            reasons.append(int(refused.value.reason))

    async with mq.run(app):
        await mq.put("IN", b"x")
        for put in (app.put("LATER", b"x", delay=delay), app.publish("a/b", b"x", delay=delay)):
            with pytest.raises(MQIError, match="a century") as refused:
                await put
            reasons.append(int(refused.value.reason))
        await anyio.sleep(1)
    with pytest.raises(MQIError, match="a century") as refused:
        app.publisher("LATER", delay=delay)

    assert [Reason.OPTIONS_ERROR] * 5 == [*reasons, refused.value.reason]
    assert (0, 0) == (mq.depth("LATER"), mq.depth(STAGING))


@pytest.mark.parametrize(
    ("descriptor", "expiry", "reason"),
    [
        (MessageDescriptor(message_flags=MessageFlag.MSG_IN_GROUP), None, Reason.OPTIONS_ERROR),
        (MessageDescriptor(), 4.9, Reason.EXPIRY_ERROR),
        (MessageDescriptor(expiry_tenths=49), None, Reason.EXPIRY_ERROR),
    ],
    ids=["grouped", "expiry shorter than the delay", "expiry of the descriptor"],
)
async def test_restrictions_at_the_send(
    mq: QueueManagerKit, descriptor: MessageDescriptor, expiry: float | None, reason: Reason
) -> None:
    """Any attempt to use this combination results in a JMSException with a MQRC_OPTIONS_ERROR (MQRC_EXPIRY_ERROR) message."""
    async with mq.run(app := App()):
        with pytest.raises(MQIError) as refused:
            await app.put("LATER", b"x", delay=5, descriptor=descriptor, expiry=expiry)

    assert reason == refused.value.reason
    assert not mq.depth(STAGING)


async def test_the_authority_to_put_to_the_target_is_checked_at_the_send_only(mq: QueueManagerKit) -> None:
    """Authorization checks are on the original target when the application sends ...; none are carried out at that point."""
    mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bert') AUTHADD(CONNECT,INQ)")
    mq.mqsc(f"SET AUTHREC PROFILE({STAGING}) OBJTYPE(QUEUE) PRINCIPAL('bert') AUTHADD(PUT)")
    grant = "SET AUTHREC PROFILE(LATER) OBJTYPE(QUEUE) PRINCIPAL('bert')"
    async with mq.run(app := App(), user="bert"):
        with pytest.raises(MQIError) as refused:
            await app.put("LATER", b"x", delay=5)
        mq.mqsc(f"{grant} AUTHADD(PUT,INQ)")
        await app.put("LATER", b"x", delay=5)
        mq.mqsc(f"{grant} AUTHRMV(PUT,INQ)")
        await anyio.sleep(6)

    assert Reason.NOT_AUTHORIZED == refused.value.reason
    assert [b"x"] == [found.body for found in mq.browse("LATER")]
