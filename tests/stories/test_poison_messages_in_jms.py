"""IBM q032280, "Handling poison messages in JMS", sentence by sentence, on the embedded queue manager.

Each test's docstring is the sentence that it shows. A listener is a MessageListener, `App.consumer` a MessageConsumer.
"""

from collections import Counter

import anyio
import pytest

from mqflow import App, Backout, Context, Message, Pace, Reject
from mqflow.events import Decided, Delivered, Disposed, Settled
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.headers import rfh2
from mqflow.mqi.options import OpenOption, Report
from mqflow.policy.poison.disposition import Discard, Return, Settlement
from mqflow.testing.kit import Found, QueueManagerKit
from mqflow.verbs import Connection, ObjectHandle
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
CALM = Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0))
queues = defining("BOQ", dead_letter_queue=DLQ, bothresh=2, boqname="BOQ")


def failing(queue: str = "IN", backout: Backout = CALM) -> App:
    """Return an application whose handler always fails."""
    app = App(name="failing")

    @app.listener(queue, backout=backout)
    async def handle(body: bytes) -> None:
        raise ValueError("cannot be handled by the application's logic")

    return app


async def one(mq: QueueManagerKit, app: App, queue: str, **put: str | float) -> Found:
    """Put one message, run the application, return the messages on the queue."""
    async with mq.run(app):
        await mq.put("IN", b"poison", **put)  # type: ignore[arg-type]  # fields of the descriptor by name
        [found] = await mq.drain(queue)
    return found


# -- detecting


async def test_the_queue_manager_counts_every_rollback(mq: QueueManagerKit) -> None:
    """Whenever a message is rolled back, the queue manager automatically increments the value of the BackoutCount field."""
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(4)")
    await one(mq, failing(), "BOQ")

    assert [0, 1, 2, 3] == [event.backout_count for event in mq.told(Delivered)]


async def test_below_the_threshold_it_is_delivered(mq: QueueManagerKit) -> None:
    """If the BackoutCount is less than BOTHRESH, the classes deliver it to the application for processing."""
    app, seen = App(), []

    @app.listener("IN", backout=CALM)
    async def handle(message: Message) -> None:
        seen.append(message.backout_count)
        if not message.backout_count:
            raise ValueError("the first time only")

    async with mq.run(app):
        await mq.put("IN", b"x")
        await anyio.sleep(10)

    assert [0, 1] == seen
    assert (0, 0) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_at_the_threshold_it_is_moved_to_the_queue_that_boqname_names(mq: QueueManagerKit) -> None:
    """If the BackoutCount is greater than or equal to BOTHRESH ... move the message to the queue specified by BOQNAME."""
    dead = await one(mq, failing(), "BOQ")

    assert (b"poison", 2, 2) == (dead.body, dead.why.count, dead.why.threshold)
    assert 2 == len(mq.told(Delivered))


async def test_a_message_that_was_backed_out_too_often_elsewhere_is_not_delivered_at_all(mq: QueueManagerKit) -> None:
    """When the classes detect a message that has a BackoutCount greater than zero, they compare the value."""
    await mq.put("IN", b"poison")
    async with mq.run(App()) as other:
        for _ in range(2):
            async with other.consumer("IN", transacted=True) as consumer:
                await consumer.receive()
    app, seen = App(), []

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        seen.append(body)

    async with mq.run(app):
        await mq.drain("BOQ")

    assert [] == seen


async def test_a_threshold_of_zero_disables_poison_handling(mq: QueueManagerKit) -> None:
    """If BOTHRESH is left at its default value of 0, poison message handling is disabled: put back to the input queue."""
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(0)")
    async with mq.run(failing()):
        await mq.put("IN", b"poison")
        await anyio.sleep(60)

    assert (1, 0) == (mq.depth("IN"), mq.depth("BOQ"))
    assert len(mq.told(Delivered)) > 30


async def test_the_attributes_are_inquired_once_when_first_needed_and_cached(mq: QueueManagerKit) -> None:
    """They query BOTHRESH and BOQNAME the first time they detect a BackoutCount greater than zero; then cached."""
    async with mq.run(failing()):
        started = len(mq.faults.calls)
        await mq.put("IN", b"one")
        await mq.drain("BOQ")
        mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(9)")
        await mq.put("IN", b"two")
        await mq.drain("BOQ")
        inquiries = [call for call in mq.faults.calls[started:] if call.verb == "MQINQ" and call.object_name == "IN"]

    assert {2} == {event.threshold for event in mq.told(Decided)}
    assert 2 == len(inquiries)  # its type, then its attributes


# -- configuring


async def test_for_an_alias_the_attributes_are_those_of_the_local_queue_behind_it(mq: QueueManagerKit) -> None:
    """For point-to-point messaging, this is the underlying local queue ... consuming from alias queues."""
    mq.define("ALIAS", kind="QALIAS", target="IN")
    async with mq.run(failing("ALIAS")):
        await mq.put("ALIAS", b"poison")
        [dead] = await mq.drain("BOQ")

    assert ("ALIAS", 2) == (dead.why.queue, dead.why.threshold)
    assert {"BOTHRESH of IN"} == {event.threshold_source for event in mq.told(Decided)}


async def test_the_queue_is_opened_for_inquire_and_closed_again(mq: QueueManagerKit) -> None:
    """Open the local queue, inquire the BOTHRESH and BOQNAME attributes, close the local queue."""
    async with mq.run(failing()):
        await mq.put("IN", b"poison")
        await mq.drain("BOQ")
        verbs = [call.verb for call in mq.faults.calls if call.object_name == "IN"]

    first = verbs.index("MQINQ")
    assert "MQOPEN" == verbs[first - 1]
    assert "MQCLOSE" in verbs[first : first + 4]


async def test_to_inquire_the_queue_is_opened_for_that_alone(mq: QueueManagerKit) -> None:
    """The user running the receiving application must have inquire access, regardless of the type of the queue."""
    mq.define("ALIAS", kind="QALIAS", target="IN")
    asked = _Asked(mq.queue_manager.connect())

    inquire_base_queue(asked, "ALIAS")  # type: ignore[arg-type]  # it passes every verb on

    assert dict.fromkeys(("ALIAS", "IN"), OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING) == asked.opened


class _Asked:
    """A connection that records each open."""

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self.opened: dict[str, OpenOption] = {}

    def open(self, name: str, options: OpenOption) -> ObjectHandle:
        self.opened[name] = options
        return self._inner.open(name, options)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


# -- asynchronous applications


async def test_a_listener_requeues_outside_the_unit_of_work_of_delivery(mq: QueueManagerKit) -> None:
    """The requeue process takes place outside of any unit of work associated with actual message delivery to the application.

    What the application did with the message is undone, the move is not. No unit of work of another message undoes the move
    either, and no other worker ever gets the message.
    """
    mq.define("OUT")
    app, seen = App(), []

    @app.listener("IN", concurrency=2)
    async def handle(body: bytes, ctx: Context) -> None:
        seen.append(body)
        if body == b"slow":
            await anyio.sleep(30)
        await ctx.put("OUT", body)
        if body == b"poison":
            raise Reject("poison")

    async with mq.run(app):
        await mq.put("IN", b"slow")
        await mq.put("IN", b"poison")
        await anyio.sleep(1)
        moved = [found.body for found in mq.browse("BOQ")]
        settled = [event.settlement for event in mq.told(Settled)]
        assert 0 == mq.depth("OUT")
        await anyio.sleep(60)

    assert [b"slow", b"poison"] == seen
    assert [b"poison"] == moved
    assert [Settlement.COMMIT] == settled
    assert [b"slow", b"poison"] == seen
    assert [b"slow"] == [found.body for found in mq.browse("OUT")]
    assert 0 == mq.depth("IN")


async def test_the_failure_of_another_message_does_not_bring_a_moved_message_back_to_its_handler(mq: QueueManagerKit) -> None:
    """The requeue process takes place outside of any unit of work associated with actual message delivery to the application.

    The backout of a unit of several messages undoes a move in it. The move is then made again, and no handler is called.
    """
    app, seen = App(), []

    @app.listener("IN", unit_of_work=3)
    async def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"poison":
            raise Reject("poison")
        if message.body == b"fails" and message.backout_count == 0:
            raise ValueError(message.body)

    for body in (b"poison", b"fails", b"good"):
        await mq.put("IN", body)
    async with mq.run(app):
        await anyio.sleep(60)

    assert {b"poison": 1, b"fails": 2, b"good": 1} == Counter(seen)
    [moved] = mq.browse("BOQ")
    assert (b"poison", "Reject", 1) == (moved.body, moved.why.error, moved.why.count)
    assert 0 == mq.depth("IN")


async def test_without_a_backout_queue_it_goes_to_the_dead_letter_queue(mq: QueueManagerKit) -> None:
    """If neither is set, the classes try to put the message to the dead letter queue for the queue manager."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    dead = await one(mq, failing(), DLQ)

    assert (2362, "IN", "QM1", b"poison") == (dead.why.reason, dead.why.queue, dead.why.queue_manager, dead.body)
    assert "MQDEAD" == dead.descriptor.format


async def test_without_a_backout_queue_a_sender_may_have_it_discarded(mq: QueueManagerKit) -> None:
    """If the message has the report option MQRO_DISCARD_MSG set, the message is discarded."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    async with mq.run(failing()):
        await mq.put("IN", b"poison", report=int(Report.DISCARD_MSG), persistent=True)
        await anyio.sleep(10)

    assert (0, 0) == (mq.depth("IN"), mq.depth(DLQ))
    [disposed] = mq.told(Disposed)
    assert isinstance(disposed.disposition, Discard)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("ALTER QLOCAL(BOQ) PUT(DISABLED)", 2051),
        ("ALTER QLOCAL(BOQ) MAXDEPTH(0)", 2053),
        ("ALTER QLOCAL(BOQ) MAXMSGL(3)", 2030),
        ("DELETE QLOCAL(BOQ)", 2085),
    ],
)
async def test_a_backout_queue_that_refuses_leads_to_the_dead_letter_queue(
    mq: QueueManagerKit, command: str, reason: int
) -> None:
    """If the message cannot be put to the backout queue, it is either moved to the dead letter queue or discarded."""
    mq.mqsc(command)
    dead = await one(mq, failing(), DLQ)

    assert (b"poison", reason) == (dead.body, dead.why.reason)
    [disposed] = mq.told(Disposed)
    assert [reason, 0] == [attempt.reason for attempt in disposed.attempts]


async def test_a_backout_queue_that_is_the_input_queue_by_another_name_is_no_destination(mq: QueueManagerKit) -> None:
    """Ours: such a message would come back directly with a count of 0, and go round for ever."""
    mq.define("BACK", kind="QALIAS", target="IN")
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(BACK)")
    dead = await one(mq, failing(), DLQ)

    assert (b"poison", 2522) == (dead.body, dead.why.reason)
    assert "leads back to IN" in mq.told(Disposed)[0].attempts[0].detail


async def test_a_backout_queue_that_is_a_model_is_no_destination(mq: QueueManagerKit) -> None:
    """Ours: the message would be on a queue that ends with its close."""
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(SYSTEM.DEFAULT.MODEL.QUEUE)")
    dead = await one(mq, failing(), DLQ)

    assert (b"poison", 2057) == (dead.body, dead.why.reason)


async def test_a_topic_without_subscribers_is_no_destination_for_a_poison_message(mq: QueueManagerKit) -> None:
    """Ours: the put would succeed, and put the message nowhere."""
    mq.mqsc("DEFINE TOPIC(NEWS) TOPICSTR('news')", "DEFINE QALIAS(TO.NEWS) TARGET(NEWS) TARGTYPE(TOPIC)")
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(TO.NEWS)")
    dead = await one(mq, failing(), DLQ)

    assert (b"poison", 2550) == (dead.body, dead.why.reason)


async def test_a_message_that_the_dead_letter_queue_refuses_too_returns_to_the_input_queue(mq: QueueManagerKit) -> None:
    """If the attempt to put the message to the dead letter queue fails, the classes return the message to the input queue."""
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)", f"ALTER QLOCAL({DLQ}) PUT(DISABLED)")
    async with mq.run(failing()):
        await mq.put("IN", b"poison")
        await anyio.sleep(10)

    assert [b"poison"] == [found.body for found in mq.browse("IN")]
    assert isinstance(mq.told(Disposed)[0].disposition, Return)


# -- what happens to a message when it is moved


async def test_a_message_without_an_rfh2_gets_one_in_front(mq: QueueManagerKit) -> None:
    """If the poison message does not contain an RFH2 header, the classes add one: MQHRF2, CCSID 1208, Encoding 273."""
    dead = await one(mq, failing(), "BOQ", format="MQSTR", ccsid=819, encoding=546)

    [header] = dead.headers
    assert ("MQHRF2", 1208, 273) == (dead.descriptor.format, dead.descriptor.ccsid, dead.descriptor.encoding)
    assert isinstance(header, rfh2.RFH2)
    assert ("MQSTR", 819, 546) == (header.format, header.ccsid, header.encoding)
    assert b"poison" == dead.body


async def test_a_message_with_an_rfh2_keeps_it_byte_for_byte(mq: QueueManagerKit) -> None:
    """If the poison message contains an RFH2 header, only fields within the MQMD are changed."""
    async with mq.run(failing()):
        put = await mq.put("IN", b"poison", properties={"tenant": "blue"})
        [before] = mq.browse("IN")
        [dead] = await mq.drain("BOQ")

    assert before.data == dead.data
    assert (before.descriptor.format, before.descriptor.ccsid, before.descriptor.encoding) == (
        dead.descriptor.format,
        dead.descriptor.ccsid,
        dead.descriptor.encoding,
    )
    assert put.descriptor.message_id == dead.message_id
    assert ("failed", "ValueError") == (dead.why.outcome, dead.why.error)  # from the events: the message cannot say it


@pytest.mark.parametrize("properties", [{}, {"tenant": "blue"}], ids=["without an MQRFH2", "with one"])
async def test_the_count_is_reset_to_zero(mq: QueueManagerKit, properties: dict[str, str]) -> None:
    """The BackoutCount field is reset to zero."""
    async with mq.run(failing()):
        await mq.put("IN", "poison", properties=properties)
        [dead] = await mq.drain("BOQ")

    assert 0 == dead.backout_count


@pytest.mark.parametrize("properties", [{}, {"tenant": "blue"}], ids=["without an MQRFH2", "with one"])
async def test_the_expiry_of_a_moved_message_is_its_rest(mq: QueueManagerKit, properties: dict[str, str]) -> None:
    """The Expiry field is updated to reflect the remaining expiry at the time the poison message was received."""
    async with mq.run(failing()):  # fails at 0 s and, a second later, at 1 s
        await mq.put("IN", "poison", expiry=60.0, properties=properties)
        [dead] = await mq.drain("BOQ")

    assert 580 <= dead.descriptor.expiry_tenths <= 591


async def test_identifiers_context_priority_and_persistence_are_passed_on(mq: QueueManagerKit) -> None:
    """To move poison messages, the user running the application needs put and passall authorities."""
    async with mq.run(failing()):
        await mq.put("IN", b"poison", correlation_id=b"c" * 24, priority=7, persistent=True)
        [before] = mq.browse("IN")
        [dead] = await mq.drain("BOQ")

    kept = (
        "message_id", "correlation_id", "priority", "persistence", "put_application_name", "put_date", "put_time",
        "user_identifier", "accounting_token", "application_origin_data",
    )  # fmt: skip
    assert {name: getattr(before.descriptor, name) for name in kept} == {name: getattr(dead.descriptor, name) for name in kept}


async def test_the_moved_message_says_why(mq: QueueManagerKit) -> None:
    """Ours: in the header that was added, since the message does not say it otherwise."""
    why = (await one(mq, failing(), "BOQ")).why

    assert ("failed", "ValueError", "cannot be handled by the application's logic", "handle", "IN", "QM1", 2, 2, "failing") == (
        why.outcome, why.error, why.text, why.handler, why.queue, why.queue_manager, why.count, why.threshold,
        why.application_name,
    )  # fmt: skip
    assert why.at is not None


@pytest.mark.parametrize("room", [6, 100], ids=["just so much", "too little for the header"])
async def test_a_message_that_has_no_room_for_the_header_is_moved_without(mq: QueueManagerKit, room: int) -> None:
    """Beyond the source, which always adds an MQRFH2: the message would stay, and block the messages behind it for ever."""
    mq.mqsc(f"ALTER QLOCAL(BOQ) MAXMSGL({room})")

    dead = await one(mq, failing(), "BOQ")

    assert (b"poison", 0, ()) == (dead.body, dead.descriptor.backout_count, mq.told(Disposed)[0].attempts[:-1])
    assert mq.depth("IN") == 0
