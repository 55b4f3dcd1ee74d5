"""The third seed's section "Publish/subscribe", sentence by sentence, on the embedded queue manager; `ours` marks the rest."""

import anyio
import pytest

from mqflow import App, Context, MQIError
from mqflow.events import DelayedDelivered, DelayedRefused
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.delay import parse
from mqflow.mqi.options import Feedback, OpenOption, Report, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.poison.disposition import DeadLetter, Discard
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Connection, Subscribed
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
TOPIC = "prices/oil"


@pytest.fixture(autouse=True)
def topic(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    mq.mqsc("DEFINE TOPIC(PRICES) TOPICSTR('prices') PMSGDLV(ALLAVAIL) NPMSGDLV(ALLAVAIL)")
    for name in ("A", "B", "IN", "REPORTS"):
        mq.define(name)


def define_subscription(mq: QueueManagerKit, name: str, queue: str, more: str = "") -> None:
    mq.mqsc(f"DEFINE SUB({name}) TOPICSTR('{TOPIC}') DEST({queue}) {more}")


def subscribed(connection: Connection, queue: str = "") -> Subscribed:
    """Subscribe for as long as the connection lasts, to a managed queue or to this one."""
    options = SubscribeOption.CREATE
    handle = connection.open(queue, OpenOption.OUTPUT) if queue else None
    if handle is None:
        options |= SubscribeOption.MANAGED
    return connection.subscribe(SubscriptionDescriptor(object_string=TOPIC, options=options), handle)


async def test_a_message_for_each_matching_subscriber_waits_on_the_staging_queue(mq: QueueManagerKit) -> None:
    """A message for each matching subscriber is put to the SYSTEM.DDELAY.LOCAL.QUEUE queue, until the delay completes."""
    define_subscription(mq, "S1", "A")
    define_subscription(mq, "S2", "B")
    mq.mqsc("DEFINE SUB(S3) TOPICSTR('other/topic') DEST(A)")
    async with mq.run(app := App()):
        put = await app.publish(TOPIC, b"70", delay=5)
        waiting = mq.browse(STAGING)
        await anyio.sleep(4.9)
        early = mq.depth("A") + mq.depth("B")
        await anyio.sleep(1)

    assert {"A", "B"} == {parse(found.data).target for found in waiting}
    assert {put.descriptor.message_id} == {found.correlation_id for found in waiting}
    assert 0 == early
    assert [[b"70"], [b"70"]] == [[found.body for found in mq.browse(queue)] for queue in ("A", "B")]
    assert 2 == len(mq.told(DelayedDelivered))


async def test_matching_is_done_at_the_send(mq: QueueManagerKit) -> None:
    """Matching of a publication to available subscriptions occurs when the JMS application sends a message."""
    define_subscription(mq, "S1", "A")
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5)
        define_subscription(mq, "S2", "B")
        await anyio.sleep(6)

    assert (1, 0) == (mq.depth("A"), mq.depth("B"))


async def test_a_copy_is_the_one_that_would_have_come_without_a_delay(mq: QueueManagerKit) -> None:
    """Ours: correlation, context, priority and properties as for a publication without a delay; each has its own MsgId."""
    define_subscription(mq, "S1", "A")
    async with mq.run(app := App()):
        for delay in (0, 5):
            await app.publish(TOPIC, "70", delay=delay, priority=7, properties={"unit": "barrel"}, persistent=True)
        await anyio.sleep(6)

    now, later = mq.browse("A")
    fields = set(MessageDescriptor.__struct_fields__) - {"message_id", "put_date", "put_time"}
    assert {name: getattr(now.descriptor, name) for name in fields} == {
        name: getattr(later.descriptor, name) for name in fields
    }
    assert now.message_id != later.message_id
    assert (now.text(), now.properties) == (later.text(), later.properties)


async def test_selectors_choose_among_delayed_publications(mq: QueueManagerKit) -> None:
    """Ours: a selector is evaluated on the sent message, not on the staged one."""
    define_subscription(mq, "S1", "A", "SELECTOR('unit = ''barrel''')")
    async with mq.run(app := App()):
        for unit in ("barrel", "ton"):
            await app.publish(TOPIC, unit, delay=5, properties={"unit": unit})
        await anyio.sleep(6)

    assert ["barrel"] == [found.text() for found in mq.browse("A")]


async def test_it_is_published_with_the_unit_of_work(mq: QueueManagerKit) -> None:
    """The message is not placed on the staging queue until the unit of work is committed."""
    define_subscription(mq, "S1", "A")
    app = App()

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.publish(TOPIC, body, delay=5)
        assert not mq.browse(STAGING)
        if not ctx.message.backout_count:
            raise ValueError("once")

    await run_for(mq, 10, app, b"70")

    assert [b"70"] == [found.body for found in mq.browse("A")]


@pytest.mark.parametrize("attribute", ["PMSGDLV", "NPMSGDLV"])
@pytest.mark.parametrize("rule", ["ALL", "ALLDUR"])
async def test_only_a_topic_that_is_all_available_takes_them(mq: QueueManagerKit, attribute: str, rule: str) -> None:
    """Only supported if the target topic is configured with (N)PMSGDLV = ALLAVAIL; MQRC_PUBLICATION_FAILURE otherwise."""
    define_subscription(mq, "S1", "A")
    mq.mqsc(f"ALTER TOPIC(PRICES) {attribute}({rule})")
    async with mq.run(app := App()):
        with pytest.raises(MQIError) as refused:
            await app.publish(TOPIC, b"70", delay=5)

    assert Reason.PUBLICATION_FAILURE == refused.value.reason
    assert not mq.depth(STAGING)


async def test_a_retained_publication_cannot_be_delayed(mq: QueueManagerKit) -> None:
    """Use of retained publications and delivery delay is not supported ...: MQRC_OPTIONS_ERROR."""
    async with mq.run(app := App()):
        with pytest.raises(MQIError, match="retained publication") as refused:
            await app.publish(TOPIC, b"70", delay=5, retain=True)

    assert Reason.OPTIONS_ERROR == refused.value.reason


async def test_a_staging_queue_without_room_for_all_takes_none(mq: QueueManagerKit) -> None:
    """Ours: a publication is staged for every subscription, or refused."""
    define_subscription(mq, "S1", "A")
    define_subscription(mq, "S2", "B")
    mq.mqsc(f"ALTER QLOCAL({STAGING}) MAXDEPTH(1)")
    async with mq.run(app := App()):
        with pytest.raises(MQIError, match=STAGING) as refused:
            await app.publish(TOPIC, b"70", delay=5)

    assert Reason.Q_FULL == refused.value.reason
    assert not mq.depth(STAGING)


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_publication_whose_subscriber_has_unsubscribed_is_discarded_silently(
    mq: QueueManagerKit, *, persistent: bool
) -> None:
    """If a delayed publication cannot be delivered because a subscriber has unsubscribed ... it is discarded silently."""
    define_subscription(mq, "S1", "A")
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5, persistent=persistent)
        mq.mqsc("DELETE SUB(S1)")
        await anyio.sleep(6)

    assert [0, 0, 0] == [mq.depth(name) for name in ("A", STAGING, DLQ)]
    assert [Discard] == [type(event.disposition) for event in mq.told(DelayedRefused)]


@pytest.mark.parametrize("queue", ["", "A"], ids=["managed", "on a queue that stays"])
async def test_a_publication_whose_subscriber_has_disconnected_is_discarded_silently(mq: QueueManagerKit, queue: str) -> None:
    """Or in the case of a non-durable subscriber, because it has disconnected, then the message is discarded silently."""
    stays, goes = mq.queue_manager.connect(), mq.queue_manager.connect()
    kept = subscribed(stays)
    subscribed(goes, queue)
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5)
        assert 2 == mq.depth(STAGING)
        goes.disconnect()
        await anyio.sleep(6)
        assert [b"70"] == [found.body for found in mq.browse(kept.queue.name)]

    assert [0, 0, 0] == [mq.depth(name) for name in (STAGING, DLQ, "A")]
    assert [Discard] == [type(event.disposition) for event in mq.told(DelayedRefused)]


async def test_a_silently_discarded_message_still_causes_its_report(mq: QueueManagerKit) -> None:
    """Report messages are still generated as described earlier."""
    define_subscription(mq, "S1", "A")
    app = App()
    wanted = MessageDescriptor(report=Report.EXCEPTION, reply_to_queue="REPORTS")
    async with mq.run(app):
        await app.publish(TOPIC, b"70", delay=5, descriptor=wanted)
        mq.mqsc("DELETE SUB(S1)")
        await anyio.sleep(6)

    [report] = mq.browse("REPORTS")
    assert Reason.NO_SUBSCRIPTION == report.descriptor.feedback


async def test_a_publication_that_expires_while_it_waits_is_reported(mq: QueueManagerKit) -> None:
    """If a message expires while on the staging queue and one of the MQRO_EXPIRATION_* options is set ..."""
    define_subscription(mq, "S1", "A")
    wanted = MessageDescriptor(report=Report.EXPIRATION, reply_to_queue="REPORTS")
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5, expiry=6, descriptor=wanted)
    mq.clock.advance(10)
    async with mq.run(App()):
        [report] = await mq.drain("REPORTS")

    assert Feedback.EXPIRATION == report.descriptor.feedback
    assert 0 == mq.depth("A")


@pytest.mark.parametrize(
    ("alter", "expected"),
    [("", DeadLetter(DLQ, Reason.PUT_INHIBITED)),
     ("ALTER TOPIC(PRICES) USEDLQ(NO)", Discard("Neither the subscriber nor the dead-letter queue took the publication")),
     (f"ALTER QLOCAL({DLQ}) PUT(DISABLED)", Discard("Neither the subscriber nor the dead-letter queue took the publication"))],
    ids=["put to the dead letter queue", "ours: USEDLQ(NO)", "the put to the dead letter queue fails"],
)  # fmt: skip
async def test_a_publication_that_its_queue_refuses(mq: QueueManagerKit, alter: str, expected: object) -> None:
    """Put to the dead letter queue instead, and where the put to the dead letter queue fails ... the message is discarded."""
    if alter:
        mq.mqsc(alter)
    define_subscription(mq, "S1", "A")
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5)
        mq.mqsc("ALTER QLOCAL(A) PUT(DISABLED)")
        await anyio.sleep(90)

    assert [expected] == [event.disposition for event in mq.told(DelayedRefused)]
    assert (int(isinstance(expected, DeadLetter)), 0) == (mq.depth(DLQ), mq.depth(STAGING))


async def test_a_persistent_publication_reaches_a_subscriber_on_a_temporary_queue(mq: QueueManagerKit) -> None:
    """Ours: as without a delay, it is not persistent there."""
    connection = mq.queue_manager.connect()
    kept = subscribed(connection)
    async with mq.run(app := App()):
        await app.publish(TOPIC, b"70", delay=5, persistent=True)
        await anyio.sleep(6)

    assert [0] == [found.descriptor.persistence for found in mq.browse(kept.queue.name)]
