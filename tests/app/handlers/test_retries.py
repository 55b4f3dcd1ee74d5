"""`Retry(after=...)`: a message with a long pause waits on the staging queue, and its backout count continues."""

from collections import Counter

import anyio
import pytest

from mqflow import App, Backout, Batch, Context, Message, Retry
from mqflow.events import Decided, Disposed, Settled, WaitsOnQueue, Warned
from mqflow.mqi.headers.delay import parse
from mqflow.mqi.options import MessageFlag, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

AT_ONCE = Pace(first_s=0.0, max_s=0.0)
queues = defining("BOQ", "OUT", bothresh=3, boqname="BOQ")


def failing(times: int, after: float = 60, **options: object) -> tuple[App, list[Message]]:
    """Return an application that asks for a later retry `times` times, and the messages that it receives."""
    app, seen = App(), []

    @app.listener("IN", **options)  # type: ignore[arg-type]  # options by name
    async def handle(message: Message) -> None:
        seen.append(message)
        if len(seen) <= times:
            raise Retry("not yet", after=after)

    return app, seen


async def test_a_long_pause_is_waited_out_on_the_staging_queue(mq: QueueManagerKit) -> None:
    app, seen = failing(1)
    async with mq.run(app):
        await mq.put("IN", "text", correlation_id=b"C" * 24, properties={"colour": "blue"}, priority=7)
        await anyio.sleep(30)
        [waiting] = mq.browse(STAGING)
        assert (0, 60_000) == (mq.depth("IN"), parse(waiting.data).delay_ms)
        await anyio.sleep(31)

    first, second = (message.descriptor for message in seen)
    assert (0, 1) == (first.backout_count, second.backout_count)
    assert [b"text"] * 2 == [message.body for message in seen]
    assert {"colour": "blue"} == seen[1].properties
    for field in ("message_id", "correlation_id", "format", "ccsid", "priority", "persistence", "put_date", "put_time"):
        assert getattr(first, field) == getattr(second, field)


async def test_a_message_from_an_alias_waits_for_the_local_queue_behind_it(mq: QueueManagerKit) -> None:
    mq.define("ALIAS", "QALIAS", target="IN")
    app, seen = App(), list[str]()

    @app.listener("ALIAS")
    async def handle(body: str) -> None:
        seen.append(body)
        if len(seen) == 1:
            raise Retry("not yet", after=60)

    async with mq.run(app):
        await mq.put("IN", "text")
        await anyio.sleep(30)
        [waiting] = mq.browse(STAGING)
        await anyio.sleep(31)

    assert ("IN", 2) == (parse(waiting.data).target, len(seen))


async def test_a_worker_handles_others_meanwhile(mq: QueueManagerKit) -> None:
    app, seen = failing(1)
    async with mq.run(app):
        await mq.put("IN", b"first")
        await mq.put("IN", b"second")
        await anyio.sleep(1)

    assert [b"first", b"second"] == [message.body for message in seen]


async def test_the_threshold_is_reached_nevertheless(mq: QueueManagerKit) -> None:
    app, seen = failing(100)
    dead = await moved(mq, app, "text", within_s=600, properties={"colour": "blue"})

    assert [0, 1, 2] == [message.backout_count for message in seen]
    assert ("text", {"colour": "blue"}) == (dead.text(), dead.properties)
    assert [3] == [event.backout_count for event in mq.told(Disposed)]
    assert [1, 2, 3] == [event.backout_count for event in mq.told(Decided) if event.outcome]
    assert [1, 2] == [event.backout_count for event in mq.told(WaitsOnQueue)]


async def test_backouts_before_and_after_a_wait_add_up(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(5)")
    app, counts = App(), []

    @app.listener("IN", backout=Backout(pace=AT_ONCE))
    async def handle(message: Message) -> None:
        counts.append(message.backout_count)
        if message.backout_count == 2:
            raise Retry(after=60)
        raise ValueError("always")

    dead = await moved(mq, app, b"x", within_s=600)

    assert [0, 1, 2, 3, 4] == counts
    assert b"x" == dead.body
    assert 5 == dead.why.count


async def test_a_consumer_counts_the_backouts_before_the_wait(mq: QueueManagerKit) -> None:
    app, _ = failing(1)
    await run_for(mq, 1, app, b"x")
    mq.clock.advance(100)
    other = App()
    async with mq.run(other), other.consumer("IN") as consumer:
        while (message := await consumer.receive(wait_ms=1_000)) is None:
            continue
        await consumer.commit()

    assert (1, b"x") == (message.backout_count, message.body)


async def test_the_puts_of_the_handler_are_undone_before_the_message_waits(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        seen.append(message.backout_count)
        await ctx.put("OUT", message.body)
        if len(seen) == 1:
            raise Retry(after=60)

    async with mq.run(app):
        await mq.put("IN", b"x")
        await anyio.sleep(30)
        assert (0, 0, 1) == tuple(mq.depth(name) for name in ("OUT", "IN", STAGING))
        await anyio.sleep(31)

    assert [0, 1] == seen
    assert [b"x"] == [found.body for found in mq.browse("OUT")]


async def test_of_a_unit_of_work_only_the_culprit_waits(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN", unit_of_work=3)
    async def handle(message: Message) -> None:
        seen.append(message.body)
        if message.body == b"2" and not message.backout_count:
            raise Retry(after=60)

    for number in (1, 2, 3):
        await mq.put("IN", b"%d" % number)
    async with mq.run(app):
        await anyio.sleep(30)
        assert (0, 1) == (mq.depth("IN"), mq.depth(STAGING))
        await anyio.sleep(31)

    assert [b"1", b"2", b"3", b"2"] == seen


@pytest.mark.parametrize(
    ("options", "put", "after"),
    [
        ({}, {}, 5),
        ({"strict_order": True}, {}, 60),
        ({}, {"message_flags": int(MessageFlag.MSG_IN_GROUP)}, 60),
        ({}, {"report": int(Report.COD), "reply_to_queue": "OUT"}, 60),
    ],
    ids=["a short pause", "strict order", "a message of a group", "a report of the delivery"],
)
async def test_the_worker_waits_itself_in_these_cases(
    mq: QueueManagerKit, options: dict[str, object], put: dict[str, object], after: float
) -> None:
    app, seen = failing(1, after, **options)
    async with mq.run(app):
        await mq.put("IN", b"x", **put)  # type: ignore[arg-type]  # fields by name
        await anyio.sleep(after + 1)

    assert [0, 1] == [message.backout_count for message in seen]
    assert [] == mq.told(WaitsOnQueue)
    assert [Settlement.BACKOUT, Settlement.COMMIT] == [event.settlement for event in mq.told(Settled)]


@pytest.mark.parametrize("puts", [False, True])
async def test_a_worker_waits_where_the_staging_queue_refuses(mq: QueueManagerKit, *, puts: bool) -> None:
    mq.mqsc(f"ALTER QLOCAL({STAGING}) PUT(DISABLED)")
    app, at = App(), []

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        at.append((mq.clock.monotonic(), message.backout_count))
        if puts:
            await ctx.put("OUT", b"y")
        if len(at) == 1:
            raise Retry(after=60)

    await run_for(mq, 61, app, b"x")

    assert 60 <= at[1][0] - at[0][0] <= 61
    assert any("cannot be staged" in event.text and "MQRC_PUT_INHIBITED" in event.text for event in mq.told(Warned))
    assert int(puts) == mq.depth("OUT")


async def test_a_failed_batch_waits_in_the_worker(mq: QueueManagerKit) -> None:
    app, sizes = App(), []

    @app.listener("IN", batch=Batch(max=2))
    async def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))
        if len(sizes) == 1:
            raise Retry(after=60)

    for _ in range(2):
        await mq.put("IN", b"x")
    await run_for(mq, 100, app)

    assert [2] == sizes[:1]
    assert [] == mq.told(WaitsOnQueue)
    assert 0 == mq.depth("IN")


async def test_messages_that_come_back_from_the_staging_queue_together_are_handled_one_by_one(mq: QueueManagerKit) -> None:
    app, sizes, calls = App(), list[int](), Counter[bytes]()

    @app.listener("IN", batch=Batch(max=4))
    async def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))
        calls.update(message.body for message in messages)
        if any(calls[message.body] <= 3 for message in messages):
            raise Retry(after=60)

    for number in range(4):
        await mq.put("IN", b"%d" % number)
    for _ in range(3):
        await run_for(mq, 1, app)
        await anyio.sleep(120)  # all are due when the application starts again

    assert [4] + [1] * 12 == sizes
    # The failure of the batch is not a failure of its messages.
    assert [True] * 4 == [event.is_first_failure for event in mq.told(Decided) if event.backout_count == 1]
    assert dict.fromkeys((b"0", b"1", b"2", b"3"), 4) == calls
    assert (0, 0, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(STAGING))


@pytest.mark.parametrize("puts", [False, True])
async def test_no_message_is_lost_or_doubled_where_a_call_of_the_staging_fails(mq: QueueManagerKit, *, puts: bool) -> None:
    """The connection breaks at a chosen call between the failure and the commit."""
    for verb, nth in (("MQPUT1", 1), ("MQCMIT", 1), ("MQCMIT", 2), ("MQGET", 2), ("MQGET", 3), ("MQBACK", 1)):
        mq.faults.clear()
        for name in ("IN", "OUT", STAGING):
            await mq.drain(name, quiet_s=0) if mq.depth(name) else None
        mq.faults.add(Fault(verb=verb, nth=nth, reason=Reason.CONNECTION_BROKEN))
        app = App()

        @app.listener("IN")
        async def handle(message: Message, ctx: Context) -> None:
            if puts:
                await ctx.put("OUT", message.body)
            if not message.backout_count:
                raise Retry(after=60)
            if not puts:
                await ctx.put("OUT", message.body)

        await run_for(mq, 200, app, b"x", persistent=True)
        assert (1, 0, 0) == tuple(mq.depth(name) for name in ("OUT", "IN", STAGING)), f"{verb} {nth}"


async def test_of_messages_with_the_same_identifiers_the_one_that_asked_for_it_waits(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        seen.append(body)
        if len(seen) == 1:
            await mq.put("IN", b"other", priority=9, message_id=b"M" * 24, correlation_id=b"C" * 24)
            await ctx.put("OUT", body)  # so the message is backed out before it is staged, and other workers can get it
            raise Retry(after=60)

    async with mq.run(app):
        await mq.put("IN", b"waits", message_id=b"M" * 24, correlation_id=b"C" * 24)
        await anyio.sleep(30)
        at_first = list(seen)
        await anyio.sleep(60)

    assert [b"waits", b"other"] == at_first
    assert [b"waits", b"other", b"waits"] == seen
