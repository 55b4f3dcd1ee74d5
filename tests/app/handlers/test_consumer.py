"""The synchronous consumer: it moves poison messages inside the unit of work that was active at the receive.

Source: IBM q032280, "Processing poison messages for synchronous applications".
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import msgspec
import pytest

from mqflow import App, ConfigurationError, Message, Outgoing
from mqflow.app.handlers.outgoing_message import Send
from mqflow.events import Decided, Disposed, InDoubt, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.mqi.options import ObjectType, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Discard, Requeue, Return, Undecodable
from mqflow.policy.poison.outcomes import UndecodableError
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import ObjectDescriptor, Put
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Order(msgspec.Struct):
    number: int


queues = defining("OUT", "BOQ", bothresh=1, boqname="BOQ")


async def backed_out_once(mq: QueueManagerKit, app: App, report: Report = Report.NONE) -> None:
    await mq.put("IN", b"poison", report=int(report))
    async with app.consumer("IN") as consumer:
        await consumer.receive()
        await consumer.backout()


async def test_a_received_message_is_off_its_queue_once_the_unit_of_work_is_committed(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await mq.put("IN", b"one")
        message = await consumer.receive(wait_ms=1000)
        await consumer.put("OUT", b"answer")
        before = mq.depth("OUT"), [found.body for found in mq.browse("OUT")]
        await consumer.commit()

    assert message is not None
    assert b"one" == message.body
    assert (1, []) == before
    assert (0, [b"answer"]) == (mq.depth("IN"), [found.body for found in mq.browse("OUT")])


async def test_leaving_without_a_commit_backs_out(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await mq.put("IN", b"one")
        async with app.consumer("IN") as consumer:
            await consumer.receive()

    assert [1] == [found.backout_count for found in mq.browse("IN")]


async def test_an_empty_queue_gives_none_after_the_wait(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        started = mq.clock.monotonic()
        assert await consumer.receive(wait_ms=2500) is None
        assert 2.5 == round(mq.clock.monotonic() - started, 1)


async def test_the_move_of_a_poison_message_commits_with_the_unit_of_work(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()
            uncommitted = [found.body for found in mq.browse("BOQ")]
            await consumer.commit()

    assert message is not None
    assert (b"good", []) == (message.body, uncommitted)
    assert [b"poison"] == [found.body for found in mq.browse("BOQ")]
    assert [Requeue("BOQ")] == [event.disposition for event in mq.told(Disposed)]
    assert 1 == mq.told(Decided)[-1].threshold


async def test_the_move_is_undone_when_the_unit_of_work_is_backed_out(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait() is None
            await consumer.backout()

    assert (0, [2]) == (mq.depth("BOQ"), [found.backout_count for found in mq.browse("IN")])


async def test_a_poison_message_that_no_queue_takes_is_discarded_with_the_commit_as_in_jms(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait() is None
            await consumer.commit()

    [disposed] = mq.told(Disposed)
    assert isinstance(disposed.disposition, Discard)
    assert 2051 == disposed.attempts[0].reason
    assert 0 == mq.depth("IN")


async def test_a_poison_message_that_no_queue_takes_returns_when_the_unit_of_work_is_backed_out(mq: QueueManagerKit) -> None:
    """If no queue takes the message, a backout returns it to its own queue, and its backout count increases."""
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait() is None
            await consumer.backout()

    assert [(b"poison", 2)] == [(found.body, found.backout_count) for found in mq.browse("IN")]


@pytest.mark.parametrize("end", ["commit", "backout", "lost"])
async def test_a_move_is_reported_only_when_it_is_committed(mq: QueueManagerKit, end: str) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN") as consumer:
            await consumer.receive()
            before = [event.disposition for event in mq.told(Disposed)]
            if end == "lost":
                mq.faults.break_connections()
            with suppress(MQIError):
                await (consumer.commit if end == "commit" else consumer.backout)()

    assert [] == before
    assert ([Requeue("BOQ")] if end == "commit" else []) == [event.disposition for event in mq.told(Disposed)]
    assert (1 if end == "commit" else 0) == mq.depth("BOQ")


async def test_without_a_transaction_the_receive_and_the_move_are_final_at_once(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await backed_out_once(mq, app)
        await mq.put("IN", b"good")
        async with app.consumer("IN", transacted=False) as consumer:
            message = await consumer.receive()
            moved = [found.body for found in mq.browse("BOQ")]

    assert message is not None
    assert (b"good", [b"poison"]) == (message.body, moved)
    assert 0 == mq.depth("IN")


async def test_without_a_transaction_a_put_that_raises_is_not_committed_later(mq: QueueManagerKit) -> None:
    class Fails:
        async def publish(self, message: Outgoing, call_next: Send) -> Put:
            await call_next(message)
            raise LookupError(message.queue)

    async with mq.run(app := App(middleware=[Fails()])):
        await mq.put("IN", b"good")
        async with app.consumer("IN", transacted=False) as consumer:
            with pytest.raises(LookupError):
                await consumer.put("OUT", b"refused")
            await consumer.receive()

    assert ([], 0) == (mq.browse("OUT"), mq.depth("IN"))


async def test_a_message_that_may_not_be_moved_is_given_to_the_caller_once_more(mq: QueueManagerKit) -> None:
    async with mq.run(app := App(decide=lambda *_: (Return("it stays"),))):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()

    assert message is not None
    assert b"poison" == message.body


def failing(*_: object) -> Any:
    raise LookupError("no such customer")


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (failing, "LookupError: no such customer"),
        (lambda *_: None, "it returned None"),
        (lambda *_: (), "it returned ()"),
        (lambda *_: (Discard("by rule"), "BOQ"), "it returned (Discard("),
    ],
    ids=["raises", "returns nothing", "returns an empty plan", "returns a name"],
)
async def test_a_message_whose_decision_fails_is_given_to_the_caller_as_in_a_listener(
    mq: QueueManagerKit, decide: Callable[..., Any], said: str
) -> None:
    async with mq.run(app := App(decide=decide)):
        await backed_out_once(mq, app)
        async with app.consumer("IN") as consumer:
            message = await consumer.receive()
            await consumer.commit()

    assert b"poison" == message.body
    [warning] = [event.text for event in mq.told(Warned)]
    assert "consumer of IN: the application's backout decision about message " in warning
    assert said in warning


async def test_a_sender_may_ask_for_a_message_to_be_discarded_rather_than_dead_lettered(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')", "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    async with mq.run(app := App()):
        await backed_out_once(mq, app, report=Report.DISCARD_MSG)
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait() is None
            await consumer.commit()

    assert (0, 0) == (mq.depth("IN"), mq.depth("SYSTEM.DEAD.LETTER.QUEUE"))


async def test_an_application_that_is_not_running_says_how_to_run_it() -> None:
    with pytest.raises(ConfigurationError, match=r"async with app\.running\(\)"):
        App().consumer("IN")


# -- waits


async def test_a_receive_waits_without_limit_as_in_jms(mq: QueueManagerKit) -> None:
    """JMS 2.0, MessageConsumer.receive(): this call blocks until a message is produced or the consumer is closed."""
    body = b""
    async with mq.run(app := App()), app.consumer("IN") as consumer, anyio.create_task_group() as group:

        async def put_much_later() -> None:
            await anyio.sleep(86_400)
            await mq.put("IN", b"one")

        group.start_soon(put_much_later)
        body = (await consumer.receive()).body
        await consumer.commit()

    assert b"one" == body


async def test_a_receive_without_a_wait_returns_at_once(mq: QueueManagerKit) -> None:
    """JMS 2.0, MessageConsumer.receiveNoWait(): the next message if one is immediately available, otherwise null."""
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        began = mq.clock.monotonic()
        nothing = await consumer.receive_no_wait()
        await mq.put("IN", {"number": 1})
        order = await consumer.receive_no_wait(Order)
        took_s = mq.clock.monotonic() - began

    assert (None, Order(1), 0) == (nothing, order, took_s)


@pytest.mark.parametrize("wait_ms", [-5, math.nan, 200.0])
async def test_a_wait_that_is_negative_or_no_whole_number_is_refused(mq: QueueManagerKit, wait_ms: Any) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        with pytest.raises(ValueError, match=r"it takes a whole number of milliseconds, 0 or more\. Leave it out for no limit"):
            await consumer.receive(wait_ms=wait_ms)


# -- wrong uses


async def test_a_consumer_whose_block_has_ended_receives_nothing(mq: QueueManagerKit) -> None:
    await mq.put("IN", b"one")
    async with mq.run(app := App()):
        async with app.consumer("IN") as consumer:
            pass
        for method in (consumer.receive, consumer.commit, consumer.backout):
            with pytest.raises(RuntimeError, match=r"did nothing: its `async with` block has ended"):
                await method()

    assert [b"one"] == [found.body for found in mq.browse("IN")]


async def test_the_error_for_a_second_task_says_to_open_another_consumer(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer("IN") as consumer, anyio.create_task_group() as group:

        async def misuse() -> None:
            await anyio.sleep(1)
            with pytest.raises(RuntimeError, match=r"another task is in its method receive\. Open a consumer for each task"):
                await consumer.receive(wait_ms=1_000)
            await mq.put("IN", b"one")

        group.start_soon(misuse)
        assert b"one" == (await consumer.receive()).body
        await consumer.commit()


# -- payloads


class Plain:
    """A class that no JSON can be decoded to."""


@pytest.mark.parametrize("payload_type", [Plain, Plain | None, list[Plain], dict[str, Plain], 5, None])
async def test_a_type_that_cannot_be_a_payload_is_refused_and_no_message_is_moved(
    mq: QueueManagerKit, payload_type: Any
) -> None:
    await mq.put("IN", {"number": 1})
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        with pytest.raises(ConfigurationError, match=r"receive: .*(cannot be a payload|JSON cannot be decoded to Plain)"):
            await consumer.receive(payload_type, wait_ms=0)
        await consumer.commit()

    assert (1, 0) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_a_receive_with_a_payload_type_returns_the_payload_and_keeps_the_message(mq: QueueManagerKit) -> None:
    """JMS 2.0, JMSConsumer.receiveBody(Class): receives the next message, and returns its body as an object of that type."""
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        put = await mq.put("IN", {"number": 1})
        order = await consumer.receive(Order)
        message = consumer.message
        await mq.put("IN", "text")
        text = await consumer.receive(str, wait_ms=1_000)
        await consumer.commit()

    assert (Order(1), "text") == (order, text)
    assert message is not None
    assert put.descriptor.message_id == message.message_id


async def test_a_receive_uses_the_codec_of_the_application(mq: QueueManagerKit) -> None:
    class Upper:
        def decode(self, message: Message, payload_type: object) -> object:  # noqa: ARG002 - the protocol `Codec`
            return message.text().upper()

        def encode(self, payload: object) -> tuple[bytes, str, int]:
            return str(payload).encode(), "MQSTR", 1208

    async with mq.run(app := App(codec=Upper())), app.consumer("IN") as consumer:
        await mq.put("IN", "order")
        assert "ORDER" == await consumer.receive(str)


@pytest.mark.parametrize("transacted", [True, False])
async def test_a_message_that_does_not_decode_is_moved_with_its_reason_and_the_next_is_returned(
    mq: QueueManagerKit, *, transacted: bool
) -> None:
    async with mq.run(app := App(name="orders")):
        await mq.put("IN", "no order")
        await mq.put("IN", {"number": 2})
        async with app.consumer("IN", transacted=transacted) as consumer:
            order = await consumer.receive(Order)
            visible = [found.text() for found in mq.browse("BOQ")]
            await consumer.commit()

    [dead] = mq.browse("BOQ")
    assert (Order(2), [] if transacted else ["no order"]) == (order, visible)
    assert ("no order", "undecodable", "IN") == (dead.text(), dead.why.outcome, dead.why.queue)
    assert "msgspec.DecodeError" == dead.why.error
    assert "JSON is malformed" in dead.why.text
    assert "consumer of IN" == dead.why.handler
    [decided], [disposed] = mq.told(Decided), mq.told(Disposed)
    assert decided.outcome == disposed.outcome
    assert isinstance(disposed.outcome, Undecodable)
    assert (1, 1, 1) == (decided.backout_count, disposed.backout_count, dead.why.count)
    assert 0 == mq.depth("IN")


async def test_the_move_of_a_message_that_does_not_decode_is_undone_by_a_backout(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        await mq.put("IN", "no order")
        async with app.consumer("IN") as consumer:
            assert await consumer.receive_no_wait(Order) is None
            await consumer.backout()

    assert ([1], 0) == ([found.backout_count for found in mq.browse("IN")], mq.depth("BOQ"))
    assert [] == mq.told(Disposed)


async def test_a_message_that_does_not_decode_is_dead_lettered_as_a_format_error(mq: QueueManagerKit) -> None:
    """IBM, "Reason and feedback codes in ASF": 2364 for a message that cannot be interpreted."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')", "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await mq.put("IN", "no order")
        assert await consumer.receive_no_wait(Order) is None
        await consumer.commit()

    [dead] = mq.browse("SYSTEM.DEAD.LETTER.QUEUE")
    [header] = [each for each in dead.headers if isinstance(each, DeadLetterHeader)]
    assert Reason.JMS_FORMAT_ERROR == header.reason


@pytest.mark.parametrize("transacted", [True, False])
async def test_a_message_that_does_not_decode_and_that_no_queue_takes_is_never_lost(
    mq: QueueManagerKit, *, transacted: bool
) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ') BOTHRESH(0)")
    async with mq.run(app := App()), app.consumer("IN", transacted=transacted) as consumer:
        await mq.put("IN", "no order")
        for _ in range(2):
            with pytest.raises(UndecodableError, match="JSON is malformed"):
                await consumer.receive(Order)
        message = await consumer.receive()
        await consumer.commit()

    assert ("no order", 2) == (message.text(), message.backout_count)
    assert 0 == mq.depth("IN")


async def test_a_unit_of_work_that_a_message_ends_that_does_not_decode_is_never_committed_unseen(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ') BOTHRESH(0)")
    async with mq.run(app := App()), app.consumer("IN") as consumer:
        await mq.put("IN", {"number": 1})
        await mq.put("IN", "no order")
        await consumer.receive(Order)
        with pytest.raises(UndecodableError):
            await consumer.receive(Order)
        with pytest.raises(MQIError, match="2003"):
            await consumer.commit()

    assert [1, 1] == [found.backout_count for found in mq.browse("IN")]


# -- topics


async def publications(mq: QueueManagerKit, app: App, *bodies: str) -> None:
    for body in bodies:
        await app.publish("Prices/Oil", body)


def publish_elsewhere(mq: QueueManagerKit, body: str) -> None:
    """Publish as another program, whose connection does not break."""
    connection = mq.queue_manager.connect()
    topic = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices/Oil")
    connection.put1(topic, MessageDescriptor(format="MQSTR"), body.encode(), PutOption.NO_SYNCPOINT)
    connection.disconnect()


def managed_queues(mq: QueueManagerKit) -> list[str]:
    return [each.name for each in mq.queue_manager.administration.queues() if each.name.startswith("SYSTEM.MANAGED.")]


async def test_a_consumer_of_a_topic_receives_publications_from_its_start_to_its_end(mq: QueueManagerKit) -> None:
    """JMS 2.0, Session.createConsumer(Topic): a non-durable subscription, which ends with its consumer."""
    async with mq.run(app := App()):
        await publications(mq, app, "before")
        async with app.consumer(topic="Prices/#") as consumer:
            await publications(mq, app, "1", "2")
            first, second = await consumer.receive(), await consumer.receive(str)
            await consumer.commit()
            nothing = await consumer.receive(wait_ms=1_000)

        assert [] == managed_queues(mq)

    assert ("1", "2", None) == (first.text(), second, nothing)
    assert ("Prices/Oil", "Prices/#") == (first.topic, first.queue)


async def test_a_durable_subscription_of_a_consumer_keeps_its_publications_until_it_is_unsubscribed(
    mq: QueueManagerKit,
) -> None:
    """JMS 2.0, createDurableConsumer: it receives the messages that arrived while no consumer was active on it."""
    async with mq.run(app := App()):
        async with app.consumer(topic="Prices/#", durable="desk"):
            pass
        await publications(mq, app, "1")
        async with app.consumer(topic="Prices/#", durable="desk") as consumer:
            received = await consumer.receive(str)
            with pytest.raises(MQIError, match="2429"):  # "there may only be one active consumer at a time"
                async with app.consumer(topic="Prices/#", durable="desk"):
                    pass
            await consumer.commit()
        await app.unsubscribe("desk")

        assert [] == managed_queues(mq)
    assert "1" == received


async def test_a_consumer_selects_messages_of_its_queue_and_publications_of_its_topic(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        async with app.consumer("IN", selector="colour = 'red'") as consumer:
            await mq.put("IN", "blue", properties={"colour": "blue"})
            await mq.put("IN", "red", properties={"colour": "red"})
            of_queue = await consumer.receive(str)
            await consumer.commit()
        async with app.consumer(topic="Prices/*", selector="colour = 'red'", character_wildcards=True) as consumer:
            for colour in ("blue", "red"):
                await app.publish("Prices/Oil", colour, properties={"colour": colour})
            of_topic = await consumer.receive(str)

    assert ("red", "red", 1) == (of_queue, of_topic, mq.depth("IN"))


@pytest.mark.parametrize("durable", ["", "desk"])
async def test_a_poison_publication_is_moved_by_the_attributes_of_its_managed_queue(mq: QueueManagerKit, durable: str) -> None:
    mq.mqsc(
        "ALTER QMODEL(SYSTEM.DURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(BOQ)",
        "ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BOTHRESH(2) BOQNAME(BOQ)",
    )
    async with mq.run(app := App()), app.consumer(topic="Prices/#", durable=durable) as consumer:
        await publications(mq, app, "poison")
        for _ in range(2):
            await consumer.receive()
            await consumer.backout()
        assert await consumer.receive_no_wait() is None
        await consumer.commit()

    [dead] = mq.browse("BOQ")
    assert ("poison", 2, "Prices/#") == (dead.text(), dead.why.count, dead.why.queue)


@pytest.mark.parametrize("durable", ["", "desk"])
async def test_a_consumer_of_a_topic_goes_on_after_an_outage(mq: QueueManagerKit, durable: str) -> None:
    received, app = "", App()

    async def outage() -> None:
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(60)
        await anyio.sleep(60)
        await publications(mq, app, "after")

    async with mq.run(app), app.consumer(topic="Prices/#", durable=durable) as consumer, anyio.create_task_group() as group:
        group.start_soon(outage)
        received = await consumer.receive(str)
        await consumer.commit()

    assert "after" == received


async def test_a_consumer_whose_managed_queue_is_gone_says_so_and_subscribes_again(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()), app.consumer(topic="Prices/#") as consumer:
        await publications(mq, app, "1")
        await consumer.receive()
        await consumer.backout()
        await consumer.receive()
        mq.mqsc("ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BOTHRESH(1) BOQNAME(BOQ)")
        mq.faults.add(Fault(verb="MQGET", reason=Reason.Q_DELETED))
        with pytest.raises(MQIError, match="2052"):
            await consumer.receive()
        with pytest.raises(MQIError, match="2003"):  # publication 1 was in the unit of work
            await consumer.commit()
        assert await consumer.receive_no_wait() is None
        await publications(mq, app, "2")
        assert "2" == await consumer.receive(str)
        await consumer.backout()
        assert await consumer.receive_no_wait() is None  # the new queue has the attributes of the altered model
        await consumer.commit()

    assert ["2"] == [found.text() for found in mq.browse("BOQ")]
    assert 2 == sum(call.verb == "MQSUB" for call in mq.faults.calls)


@pytest.mark.mq_faults("every-call")
async def test_wherever_the_connection_breaks_a_durable_publication_is_committed_once(mq: QueueManagerKit) -> None:
    committed: list[str] = []

    async def consume(app: App) -> None:
        async with app.consumer(topic="Prices/#", durable="desk") as consumer:
            while (body := await consumer.receive(str, wait_ms=1_000)) is not None:
                await consumer.commit()
                committed.append(body)

    async with mq.run(app := App()):
        for body in ("", "1"):
            if body:
                publish_elsewhere(mq, body)
            for _ in range(2):  # the first call can meet the broken connection
                with suppress(MQIError):
                    await consume(app)

    assert len(committed) <= 1
    assert committed == ["1"] or mq.told(InDoubt)
