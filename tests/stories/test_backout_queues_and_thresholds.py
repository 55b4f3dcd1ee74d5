"""The fourth seed on the embedded queue manager: "Understanding MQ Backout Queues & Thresholds" and its comments.

One word in the decorator selects the rules; each test's docstring is the sentence that it shows.
"""

import anyio
import pytest

from mqflow import App, Backout, Behaviour, Context, Message, Pace
from mqflow.events import Delivered, Disposed, ListenerPaused, Warned
from mqflow.mqi.options import Report
from mqflow.policy.poison.disposition import DeadLetter, Discard, Requeue, Return
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
PACE = Pace(first_s=1, factor=1, max_s=1, jitter=0)
queues = defining("BOQ", dead_letter_queue=DLQ, bothresh=3, boqname="BOQ")


def failing(behaviour: Behaviour) -> App:
    app = App(name="failing")

    @app.listener("IN", backout=Backout(behaviour=behaviour, pace=PACE))
    async def handle(body: bytes) -> None:
        raise ValueError("bad data")

    return app


def refuse_everywhere(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)", f"ALTER QLOCAL({DLQ}) PUT(DISABLED)")


async def test_a_message_with_a_bad_header_is_poison(mq: QueueManagerKit) -> None:
    """The client code itself fails to handle the message due to e.g. a bad header in the message."""
    app = App()

    @app.listener("IN")
    async def handle(message: Message) -> None:
        assert message.properties

    dead = await moved(mq, app, b"RFH \x00\x00\x00\x02\xff\xff\xff\xff", format="MQHRF2")

    assert "undecodable" == dead.why.outcome
    assert b"RFH \x00\x00\x00\x02\xff\xff\xff\xff" in dead.data


async def test_a_failure_within_the_transaction_makes_the_message_available_again(mq: QueueManagerKit) -> None:
    """The message will automatically rollback on to the queue and be available to be re-processed."""
    app, counts = App(), []

    @app.listener("IN", backout=Backout(pace=PACE))
    async def handle(message: Message) -> None:
        counts.append(message.backout_count)
        if len(counts) < 3:
            raise ValueError("not yet")

    await run_for(mq, 10, app, b"x")

    assert [0, 1, 2] == counts
    assert 0 == mq.depth("IN")


async def test_an_exception_that_the_handler_catches_is_no_failure(mq: QueueManagerKit) -> None:
    """The exception must not be caught. If it is caught then it is up to the coder to figure out what to do next."""
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        try:
            int(body)
        except ValueError:
            await ctx.put("BOQ", body)

    put = await moved(mq, app, b"no number")

    assert b"no number" == put.data
    assert [] == mq.told(Disposed)


async def test_the_default_threshold_is_not_set_and_the_listener_warns(mq: QueueManagerKit) -> None:
    """Be aware that the default threshold is zero."""
    mq.define("BARE")
    app = App()

    @app.listener("BARE")
    async def handle(body: bytes) -> None:
        """Take every message."""

    await run_for(mq, 1, app)

    assert "BARE has no backout threshold" in mq.told(Warned)[0].text


async def test_for_a_plain_mqi_program_the_threshold_is_just_a_hint(mq: QueueManagerKit) -> None:
    """This field is a hint to the developer. Yes, it's "just a hint"."""
    await run_for(mq, 60, failing(Behaviour.PLAIN_MQI), b"poison")

    assert (1, 0) == (mq.depth("IN"), mq.depth("BOQ"))
    assert len(mq.told(Delivered)) > 30


async def test_without_a_backout_queue_the_dead_letter_queue_takes_it(mq: QueueManagerKit) -> None:
    """If the backout queue has not been set on the original queue, the message should be PUT to the Dead Letter Queue."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    dead = await moved(mq, failing(Behaviour.JMS_LISTENER), b"poison", DLQ)

    assert 2362 == dead.why.reason


@pytest.mark.parametrize(("persistent", "lost"), [(False, True), (True, False)])
async def test_a_connection_consumer_discards_only_non_persistent_messages_that_no_queue_takes(
    mq: QueueManagerKit, *, persistent: bool, lost: bool
) -> None:
    """If the message cannot be put to either it is discarded. (This statement is only true for non-persistent messages.)"""
    refuse_everywhere(mq)
    await run_for(mq, 30, failing(Behaviour.CONNECTION_CONSUMER), b"poison", persistent=persistent)

    assert (0 if lost else 1) == mq.depth("IN")
    assert isinstance(mq.told(Disposed)[0].disposition, Discard if lost else Return)
    assert ([] if lost else [60.0]) == [event.delay_s for event in mq.told(ListenerPaused)]  # delivery stops


async def test_a_connection_consumer_sends_the_exception_report_that_was_asked_for(mq: QueueManagerKit) -> None:
    """IBM q032680: a message that missed the backout queue is reported to its sender, with 100 bytes of its data."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    mq.define("REPORTS")
    async with mq.run(failing(Behaviour.CONNECTION_CONSUMER)):
        put = await mq.put("IN", b"p" * 300, report=int(Report.EXCEPTION_WITH_DATA), reply_to_queue="REPORTS", message_type=8)
        [report] = await mq.drain("REPORTS")

    assert (4, 2362, put.descriptor.message_id, b"p" * 100) == (
        report.descriptor.message_type,
        report.descriptor.feedback,
        report.correlation_id,
        report.data,
    )
    assert 1 == mq.depth(DLQ)


@pytest.mark.parametrize("report", [Report.NONE, Report.DISCARD_MSG], ids=["dead-lettered", "discarded"])
async def test_a_report_that_cannot_be_delivered_goes_to_the_dead_letter_queue(mq: QueueManagerKit, report: Report) -> None:
    """IBM q032680: this holds for every report, also about a message that its sender wanted discarded."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    asked = int(Report.EXCEPTION | report)
    async with mq.run(failing(Behaviour.CONNECTION_CONSUMER)):
        put = await mq.put("IN", b"poison", report=asked, reply_to_queue="NOWHERE", message_type=8)
        dead = await mq.drain(DLQ)

    [undelivered] = [each for each in dead if each.descriptor.message_type == 4]
    assert (2085, "NOWHERE", put.descriptor.message_id) == (
        undelivered.why.reason,
        undelivered.why.queue,
        undelivered.correlation_id,
    )
    assert (1 if report else 2) == len(dead)


async def test_an_application_server_needs_both_attributes_to_avoid_a_loop(mq: QueueManagerKit) -> None:
    """You really need to have both the threshold and queue names defined to avoid poison messages creating a loop."""
    await moved(mq, failing(Behaviour.APPLICATION_SERVER), b"poison")
    looping_after = len(mq.told(Delivered))

    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(0)")
    await run_for(mq, 30, failing(Behaviour.APPLICATION_SERVER), b"poison")

    assert 3 == looping_after
    assert len(mq.told(Delivered)) - looping_after > 15


async def test_an_integration_broker_tries_once_where_nothing_is_configured(mq: QueueManagerKit) -> None:
    """The default is to try to process the message once."""
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(0)")
    await moved(mq, failing(Behaviour.BROKER_INPUT_NODE), b"poison")

    assert 1 == len(mq.told(Delivered))


async def test_an_integration_broker_tries_the_backout_queue_then_the_dead_letter_queue_then_again(mq: QueueManagerKit) -> None:
    """If unable to put the message on the Backout queue, the system DLQ; if not to the DLQ, continue to retry processing."""
    refuse_everywhere(mq)
    async with mq.run(failing(Behaviour.BROKER_INPUT_NODE)):
        await mq.put("IN", b"poison")
        await anyio.sleep(30)
        tried = [type(attempt.disposition) for attempt in mq.told(Disposed)[0].attempts]
        mq.mqsc(f"ALTER QLOCAL({DLQ}) PUT(ENABLED)")
        await mq.drain(DLQ)

    assert [Requeue, DeadLetter, Return] == tried
    assert 0 == mq.depth("IN")
