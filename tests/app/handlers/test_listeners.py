"""A listener and its messages: the payload for the handler, and the effect of return values and exceptions."""

import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import anyio
import anyio.lowlevel
import msgspec
import pytest

from mqflow import App, Backout, Batch, Context, Depends, Message, Pace, Reject, Retry
from mqflow.app.errors import RequestFailedError, RequestTimeoutError
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.handlers.outgoing_message import PutKeywords
from mqflow.events import Decided, Delivered, Disposed, Event, HandlerStuck, ListenerPaused, ListenerResumed, Settled, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Report
from mqflow.policy.poison.backout import decide
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Outcome, Return, Settlement, Undecodable
from mqflow.testing.kit import Found, QueueManagerKit
from mqflow.verbs import GetOptions
from tests.running import defining, moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Order(msgspec.Struct):
    number: int
    customer: str = ""


@dataclass
class Invoice:
    number: int


class Line(TypedDict):
    number: int


ORDER = {"number": 7, "customer": "ACME"}
queues = defining("OUT", "BOQ", bothresh=3, boqname="BOQ")


@pytest.fixture
def app() -> App:
    return App()


async def arrival(mq: QueueManagerKit, app: App, queue: str = "BOQ", *, body: object = ORDER, within_s: float = 60) -> Found:
    """Run the application until an order has brought a message to this queue."""
    return await moved(mq, app, body, queue, within_s=within_s)


@pytest.mark.parametrize(
    ("payload_type", "body", "expected"),
    [
        (Order, b'{"number":7,"customer":"ACME"}', Order(7, "ACME")),
        (Invoice, b'{"number":7}', Invoice(7)),
        (Line, b'{"number":7}', {"number": 7}),
        (dict, b'{"number":7}', {"number": 7}),
        (dict[str, int], b'{"number":7}', {"number": 7}),
        (str, "Grüße".encode(), "Grüße"),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (Any, b"[1,2]", [1, 2]),
    ],
)
async def test_the_annotation_of_the_payload_decides_the_argument_of_the_handler(
    mq: QueueManagerKit, payload_type: Any, body: bytes, expected: object
) -> None:
    app, seen = App(), []

    async def handle(payload: Any) -> None:
        seen.append(payload)

    handle.__annotations__["payload"] = payload_type
    app.listener("IN")(handle)

    await run_for(mq, 1, app, body)

    assert [expected] == seen


async def test_a_handler_may_ask_for_the_message_the_context_and_nothing_else(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN")
    async def handle(message: Message, ctx: Context) -> None:
        seen.append((message.body, message.properties["tenant"], message.delivery_count, ctx.listener))

    await run_for(mq, 1, app, b"x", properties={"tenant": "blue"})

    assert [(b"x", "blue", 1, "handle")] == seen


async def test_a_dependency_is_injected_and_gets_the_parameters_of_the_handler_by_name(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    async def database(message: Message) -> str:
        return f"the database of {message.queue}"

    def table(db: str) -> str:
        return f"a table in {db}"

    def row(table: Annotated[str, Depends(table)], of: Annotated[str, Depends(lambda table: f"a row of {table}")]) -> str:
        assert table
        return of

    @app.listener("IN")
    async def handle(
        order: Order, message: Message, db: Annotated[str, Depends(database)], row: Annotated[str, Depends(row)]
    ) -> None:
        assert (message.queue, db) == ("IN", "the database of IN")
        seen.append((order.number, row))

    await run_for(mq, 1, app, ORDER)

    assert [(7, "a row of a table in the database of IN")] == seen


async def test_a_plain_function_runs_in_a_thread_and_puts_in_the_unit_of_work(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    def handle(order: Order, ctx: Context) -> None:
        ctx.put_blocking("OUT", order)

    out = await arrival(mq, app, "OUT")

    assert ORDER == out.json()


async def test_the_puts_of_a_handler_are_dropped_when_it_fails(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order, ctx: Context) -> None:
        await ctx.put("OUT", order)
        raise ValueError("after the put")

    dead = await arrival(mq, app)

    assert (0, 0) == (mq.depth("OUT"), mq.depth("IN"))
    assert ("failed", "ValueError", "after the put", "handle", 3, 3) == (
        dead.why.outcome, dead.why.error, dead.why.text, dead.why.handler, dead.why.count, dead.why.threshold,
    )  # fmt: skip


async def test_a_put_of_the_application_stays_when_the_handler_fails(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", backout=Backout(never_retry=(ValueError,)))
    async def handle(order: Order) -> None:
        await app.put("OUT", order)
        raise ValueError("after the put")

    await arrival(mq, app)

    assert 1 == mq.depth("OUT")


async def test_a_failing_message_is_tried_as_often_as_its_threshold_says_with_growing_pauses(mq: QueueManagerKit) -> None:
    app, at = App(), []

    @app.listener("IN", backout=Backout(pace=Pace(first_s=1, factor=2, max_s=60, jitter=0)))
    async def handle(order: Order) -> None:
        at.append(mq.clock.monotonic())
        raise ValueError("always")

    await arrival(mq, app)

    assert [1.0, 2.0] == [round(later - sooner, 3) for sooner, later in pairwise(at)]
    assert [1, 2, 3] == [event.backout_count for event in mq.told(Decided) if event.outcome is not None]


async def test_a_rejected_message_goes_to_the_backout_queue_at_once_with_its_reason(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> None:
        raise Reject("no such customer")

    dead = await arrival(mq, app)

    assert ("failed", "Reject", "no such customer", 1) == (dead.why.outcome, dead.why.error, dead.why.text, dead.why.count)


async def test_an_exception_that_is_never_retried_disposes_of_the_message_at_once(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", backout=Backout(never_retry=(PermissionError,)))
    async def handle(order: Order) -> None:
        raise PermissionError("not yours")

    dead = await arrival(mq, app)

    assert 1 == dead.why.count


async def test_a_body_that_does_not_decode_is_disposed_of_at_once(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> None:
        raise AssertionError("never called")

    dead = await arrival(mq, app, body=b'{"number":"seven"}')

    assert ("undecodable", 1) == (dead.why.outcome, dead.why.count)
    assert "Expected `int`, got `str` - at `$.number`" == dead.why.text
    assert b'{"number":"seven"}' == dead.body


async def test_a_body_that_does_not_decode_is_redelivered_up_to_the_threshold_where_the_listener_says_so(
    mq: QueueManagerKit, app: App
) -> None:
    @app.listener("IN", backout=Backout(undecodable="redeliver"))
    async def handle(order: Order) -> None:
        raise AssertionError("never called")

    dead = await arrival(mq, app, body=b"{")

    assert ("undecodable", 3) == (dead.why.outcome, dead.why.count)


async def test_retry_says_how_long_to_wait(mq: QueueManagerKit) -> None:
    app, at = App(), []

    @app.listener("IN")
    async def handle(order: Order) -> None:
        at.append(mq.clock.monotonic())
        if len(at) < 2:
            raise Retry("not yet", after=45)

    await run_for(mq, 60, app, ORDER)

    assert 45.0 <= at[1] - at[0] < 45.1
    assert ["Retry", None] == [getattr(event.outcome, "error", None) for event in mq.told(Settled)]


async def test_the_listener_overrides_threshold_and_backout_queue(mq: QueueManagerKit) -> None:
    mq.define("MINE")
    app = App()

    @app.listener("IN", backout=Backout(threshold=2, queue="MINE"))
    async def handle(order: Order) -> None:
        raise ValueError("always")

    dead = await arrival(mq, app, "MINE")

    assert (2, 2) == (dead.why.count, dead.why.threshold)
    assert {"the listener"} == {event.threshold_source for event in mq.told(Decided)}


async def test_a_queue_without_a_threshold_is_warned_about_and_redelivers_for_ever_without_spinning(
    mq: QueueManagerKit,
) -> None:
    mq.define("BARE")
    app, deliveries = App(), []

    @app.listener("BARE")
    async def handle(order: Order) -> None:
        deliveries.append(order)
        raise ValueError("always")

    await run_for(mq, 3600, app, ORDER, queue="BARE")

    [warning] = mq.told(Warned)
    assert "BARE has no backout threshold" in warning.text
    assert 100 < len(deliveries) < 200


async def test_a_message_that_no_queue_takes_stays_and_the_listener_pauses_longer_and_longer(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")

    def end_a_spin(event: Event) -> None:
        if isinstance(event, ListenerPaused) and len(mq.told(ListenerPaused)) == 100:
            mq.mqsc("ALTER QLOCAL(BOQ) PUT(ENABLED)")

    app = App(hooks=[end_a_spin])

    @app.listener("IN")
    async def handle(order: Order) -> None:
        raise Reject("never")

    async with mq.run(app):
        await mq.put("IN", ORDER)
        await anyio.sleep(600)
        pauses = [event.delay_s for event in mq.told(ListenerPaused)]
        depth = mq.depth("IN")
        mq.mqsc("ALTER QLOCAL(BOQ) PUT(ENABLED)")
        [dead] = await mq.drain("BOQ", within_s=120)

    assert 1 == depth
    assert 10 < len(pauses) < 25
    assert pauses[0] < pauses[2] < pauses[4] <= 60
    assert 2051 == mq.told(ListenerPaused)[0].reason
    assert [1] == [len(mq.told(ListenerResumed))]
    assert ORDER == dead.json()
    assert isinstance(mq.told(Disposed)[0].disposition, Return)


async def test_the_return_value_is_the_reply_with_the_ids_the_request_asked_for(mq: QueueManagerKit) -> None:
    mq.define("REPLIES")
    app = App()

    @app.listener("IN")
    async def handle(order: Order) -> dict[str, int]:
        return {"accepted": order.number}

    async with mq.run(app):
        request = await mq.put("IN", ORDER, message_type=1, reply_to_queue="REPLIES", correlation_id=b"c" * 24)
        passing = await mq.put(
            "IN",
            ORDER,
            message_type=1,
            reply_to_queue="REPLIES",
            correlation_id=b"d" * 24,
            report=Report.PASS_CORREL_ID | Report.PASS_MSG_ID,
        )
        plain, passed = await mq.drain("REPLIES", at_least=2)

    assert {"accepted": 7} == plain.json()
    assert (2, request.descriptor.message_id) == (plain.descriptor.message_type, plain.correlation_id)
    assert (passing.descriptor.message_id, b"d" * 24) == (passed.message_id, passed.correlation_id)


async def test_each_request_of_a_batch_gets_the_reply(mq: QueueManagerKit) -> None:
    mq.define("REPLIES")
    app = App()

    @app.listener("IN", batch=Batch(max=10))
    async def handle(orders: list[Order]) -> str:
        return f"{len(orders)} accepted"

    requests = [await mq.put("IN", ORDER, message_type=1, reply_to_queue="REPLIES") for _ in range(3)]
    await mq.put("IN", ORDER)  # a message without a reply-to queue
    async with mq.run(app):
        replies = await mq.drain("REPLIES", at_least=3)

    assert [request.descriptor.message_id for request in requests] == [reply.correlation_id for reply in replies]
    assert {"4 accepted"} == {reply.text() for reply in replies}


async def test_a_request_gets_its_reply(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> Order:
        return Order(order.number + 1, "reply")

    async with mq.run(app):
        reply = await app.request("IN", Order(1), reply=Order, timeout_s=5)

    assert Order(2, "reply") == reply


async def test_a_request_without_a_reply_times_out_and_names_its_message(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> None:
        raise Reject("no")

    async with mq.run(app):
        with pytest.raises(RequestFailedError, match=r"The request 414d5120.* on IN gets no reply"):
            await app.request("IN", Order(1), reply=Order, timeout_s=5)


async def test_a_request_whose_requester_gave_up_is_not_handled_again_and_again(mq: QueueManagerKit) -> None:
    app, handled = App(), []

    @app.listener("IN")
    async def handle(order: Order) -> Order:
        handled.append(order.number)
        await anyio.sleep(10)
        return order

    async with mq.run(app):
        with pytest.raises(RequestTimeoutError):
            await app.request("IN", Order(1), reply=Order, timeout_s=5)
        await anyio.sleep(120)

    assert [1] == handled
    assert (0, 0) == (mq.depth("IN"), mq.depth("BOQ"))


@pytest.mark.parametrize(
    ("wishes", "tenths"),
    [({}, 51), ({"expiry": 60}, 600), ({"descriptor": MessageDescriptor(expiry_tenths=7)}, 7), ({"delay": 1}, -1)],
    ids=["the timeout", "as wished", "as the descriptor says", "one that is delayed lives on"],
)
async def test_a_request_lives_as_long_as_it_is_waited_for_or_as_its_sender_said(
    mq: QueueManagerKit, wishes: PutKeywords, tenths: int
) -> None:
    app, lives = App(), []

    @app.listener("IN")
    async def handle(order: Order, message: Message) -> Order:
        lives.append(message.descriptor.expiry_tenths)
        return order

    async with mq.run(app):
        await app.request("IN", Order(1), reply=Order, timeout_s=5.01, **wishes)

    assert lives[0] in {tenths, tenths - 1}  # the remaining expiry at the get


async def test_a_publisher_sends_the_return_value_in_the_same_unit_of_work(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    @app.publisher("OUT", priority=7)
    async def handle(order: Order) -> Order:
        return Order(order.number, "enriched")

    out = await arrival(mq, app, "OUT")

    assert ({"number": 7, "customer": "enriched"}, 7) == (out.json(), out.descriptor.priority)


async def test_a_result_of_a_publisher_is_not_also_a_reply(mq: QueueManagerKit) -> None:
    mq.define("REPLIES")
    app = App()

    @app.listener("IN")
    @app.publisher("OUT")
    async def handle(order: Order) -> Order:
        return order

    await moved(mq, app, ORDER, "OUT", message_type=1, reply_to_queue="REPLIES")

    assert 0 == mq.depth("REPLIES")


async def test_several_handlers_share_a_queue_and_the_first_whose_filter_says_yes_takes_the_message(
    mq: QueueManagerKit,
) -> None:
    app, seen = App(), []

    @app.listener("IN", where=lambda message: message.properties.get("kind") == "order")
    async def orders(order: Order) -> None:
        seen.append(("orders", order.number))

    @app.listener("IN")
    async def others(body: bytes) -> None:
        seen.append(("others", len(body)))

    async with mq.run(app):
        await mq.put("IN", ORDER, properties={"kind": "order"})
        await mq.put("IN", b"xyz")
        await anyio.sleep(1)

    assert [("orders", 7), ("others", 3)] == seen


async def test_a_message_that_no_filter_takes_is_moved_with_the_names_of_the_handlers(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", where=lambda _: False)
    async def never(order: Order) -> None:
        raise AssertionError("never called")

    dead = await arrival(mq, app)

    assert "undecodable" == dead.why.outcome
    assert "no handler of IN takes this message" in dead.why.text
    assert "never" in dead.why.text


async def test_a_batch_is_one_unit_of_work_and_one_call(mq: QueueManagerKit) -> None:
    app, sizes = App(), []

    @app.listener("IN", batch=Batch(max=10, wait_ms=200))
    async def handle(orders: list[Order], messages: list[Message]) -> None:
        sizes.append((len(orders), len(messages)))

    for _ in range(25):
        await mq.put("IN", ORDER)
    await run_for(mq, 5, app)

    assert [(10, 10), (10, 10), (5, 5)] == sizes


async def test_one_poison_message_does_not_sink_the_rest_of_its_batch(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")  # a failure of one message must not count for the other messages
    app = App()
    done: list[int] = []

    @app.listener("IN", batch=Batch(max=5))
    async def handle(orders: list[Order]) -> None:
        if any(order.number == 3 for order in orders):
            raise ValueError("three")
        done.extend(order.number for order in orders)

    for number in range(5):
        await mq.put("IN", {"number": number})
    async with mq.run(app):
        [dead] = await mq.drain("BOQ")
        await anyio.sleep(60)

    assert {"number": 3} == dead.json()
    assert [0, 1, 2, 4] == sorted(done)
    assert 0 == mq.depth("IN")


@pytest.mark.mq_backend("asyncio", "trio")
@pytest.mark.parametrize("broken", [{1}, {0, 3}, {0, 1, 2}, {0, 1, 2, 3}])
async def test_each_message_that_does_not_decode_leaves_its_batch_alone_and_no_other_message_is_delivered_again(
    mq: QueueManagerKit, broken: set[int]
) -> None:
    calls, given = list[list[int]](), list[int]()

    class Auditor:
        async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
            given.append(len(delivery.messages))
            await delivery.context.put("OUT", b"audited")
            return await call_next(delivery)

    app = App(middleware=[Auditor()])

    @app.listener("IN", batch=Batch(max=4))
    async def handle(orders: list[Order], ctx: Context) -> None:
        calls.append([order.number for order in orders])
        await ctx.put("OUT", b"handled")

    for number in range(4):
        await mq.put("IN", "broken" if number in broken else {"number": number})
    async with mq.run(app):
        dead = await mq.drain("BOQ", at_least=len(broken))
        await anyio.sleep(60)

    good = [number for number in range(4) if number not in broken]
    assert [good] * bool(good) == calls
    assert list(range(4, 4 - len(given), -1)) == given
    assert [(1, "undecodable", "msgspec.DecodeError")] * len(broken) == [
        (d.why.count, d.why.outcome, d.why.error) for d in dead
    ]
    assert [0] * 4 == [event.backout_count for event in mq.told(Delivered)]
    assert [b"audited", b"handled"] * bool(good) == [found.body for found in mq.browse("OUT")]


@pytest.mark.parametrize(("threshold", "expected"), [(1, [0, 1, 2, 3]), (2, [0, 1, 2, 0, 1, 2, 3])])
async def test_messages_that_share_a_unit_of_work_are_delivered_again_one_by_one_if_one_of_them_must_be(
    mq: QueueManagerKit, threshold: int, expected: list[int]
) -> None:
    mq.mqsc(f"ALTER QLOCAL(IN) BOTHRESH({threshold})")
    app, seen = App(), list[int]()

    @app.listener("IN", unit_of_work=4)
    async def handle(order: Order, ctx: Context) -> None:
        seen.append(order.number)
        await ctx.put("OUT", order)
        if order.number == 2:
            raise ValueError("two")

    for number in range(4):
        await mq.put("IN", {"number": number})
    async with mq.run(app):
        out = await mq.drain("OUT", at_least=3, quiet_s=60)

    assert expected == seen
    assert [0, 1, 3] == sorted(found.json()["number"] for found in out)
    [dead] = mq.browse("BOQ")
    assert threshold == dead.why.count


async def test_a_handler_that_takes_longer_than_its_time_limit_has_failed(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", time_limit_s=10)
    async def handle(order: Order) -> None:
        await anyio.sleep(60)

    dead = await arrival(mq, app, within_s=120)

    assert ("TimeLimitExceeded", "the handler took longer than its time limit of 10 s") == (dead.why.error, dead.why.text)


async def test_a_handler_that_is_stuck_is_named_with_its_stack_and_drained_by_force(mq: QueueManagerKit, app: App) -> None:
    async def somewhere_deep() -> None:
        await anyio.sleep_forever()

    @app.listener("IN", stuck_after_s=30)
    async def handle(order: Order) -> None:
        await somewhere_deep()

    async with mq.run(app, drain_s=5) as running:
        await mq.put("IN", ORDER)
        await anyio.sleep(60)

    [stuck] = mq.told(HandlerStuck)
    assert "somewhere_deep" in stuck.stack
    assert 30 <= stuck.running_s < 40
    assert running.cut_off
    assert [(Settlement.BACKOUT, "Interrupted")] == [
        (event.settlement, type(event.outcome).__name__) for event in mq.told(Settled)
    ]
    [back] = mq.browse("IN")
    assert 1 == back.backout_count


async def test_a_drain_lets_handlers_finish_and_commits_their_work(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", concurrency=3)
    async def handle(order: Order, ctx: Context) -> None:
        await anyio.sleep(8)
        await ctx.put("OUT", order)

    for _ in range(5):
        await mq.put("IN", ORDER)
    async with mq.run(app, drain_s=10) as running:
        await anyio.sleep(1)

    assert not running.cut_off
    assert (3, 2) == (mq.depth("OUT"), mq.depth("IN"))
    assert [0, 0] == [message.backout_count for message in mq.browse("IN")]


async def test_strict_order_holds_back_the_messages_behind_a_failing_message(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN", strict_order=True)
    async def handle(order: Order) -> None:
        seen.append(order.number)
        if order.number == 1:
            raise ValueError("one")

    for number in range(3):
        await mq.put("IN", {"number": number})
    async with mq.run(app):
        await mq.drain("BOQ")
        await anyio.sleep(1)

    assert [0, 1, 1, 1, 2] == seen


async def test_workers_beside_each_other_each_have_a_unit_of_work_of_their_own(mq: QueueManagerKit) -> None:
    app, together = App(), []
    now = 0

    @app.listener("IN", concurrency=4)
    async def handle(order: Order) -> None:
        nonlocal now
        now += 1
        together.append(now)
        await anyio.sleep(1)
        now -= 1

    for _ in range(8):
        await mq.put("IN", ORDER)
    await run_for(mq, 3, app)

    assert 4 == max(together)
    assert 8 == len(mq.told(Settled))


async def test_a_group_of_exceptions_is_final_only_if_every_one_of_them_is(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> None:
        parts = [Reject("one"), ValueError("two")] if order.number else [Reject("one"), Reject("two")]
        raise ExceptionGroup("several", parts)

    async with mq.run(app):
        await mq.put("IN", {"number": 0})
        await mq.put("IN", {"number": 1})
        dead = await mq.drain("BOQ", at_least=2)

    assert {0: 1, 1: 3} == {found.json()["number"]: found.why.count for found in dead}


async def test_a_base_exception_of_a_handler_does_not_end_the_worker(mq: QueueManagerKit) -> None:
    app, seen = App(), []

    @app.listener("IN")
    async def handle(order: Order) -> None:
        seen.append(order.number)
        if order.number == 0:
            raise StopAsyncIteration

    async with mq.run(app):
        await mq.put("IN", {"number": 0})
        await mq.put("IN", {"number": 1})
        await mq.drain("BOQ")
        await anyio.sleep(1)

    assert 1 == seen[-1]


async def test_middleware_sees_and_may_change_the_outcome_and_the_put(mq: QueueManagerKit) -> None:
    seen: list[Any] = []

    class Watching:
        async def consume(self, delivery: Any, call_next: Any) -> Any:
            outcome = await call_next(delivery)
            seen.append((delivery.queue, outcome, delivery.decision is None))
            return outcome if delivery.message.delivery_count < 2 else Failed("Watching", "enough", final=True)

        async def publish(self, message: Any, call_next: Any) -> Any:
            return await call_next(msgspec.structs.replace(message, properties={"by": "watching"}))

    app = App(middleware=[Watching()])

    @app.listener("IN")
    async def handle(order: Order, ctx: Context) -> None:
        if order.number == 0:
            raise ValueError("zero")
        await ctx.put("OUT", order)

    async with mq.run(app):
        await mq.put("IN", {"number": 0})
        await mq.put("IN", {"number": 1})
        [dead] = await mq.drain("BOQ")
        [out] = await mq.drain("OUT")

    assert ("Watching", "enough") == (dead.why.error, dead.why.text)
    assert {"by": "watching"} == out.properties
    assert ("IN", Failed("ValueError", "zero"), True) == seen[0]
    assert not seen[-1][2] or isinstance(seen[-1][1], Failed | Undecodable) or seen[-1][2]


async def test_the_backout_decision_of_an_application_may_be_its_own(mq: QueueManagerKit) -> None:
    def never_poison(*_: Any) -> Any:
        return (Deliver(),)

    app, deliveries = App(decide=never_poison), []

    @app.listener("IN", backout=Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0)))
    async def handle(order: Order) -> None:
        deliveries.append(order)
        raise ValueError("always")

    await run_for(mq, 60, app, ORDER)

    assert 50 < len(deliveries) < 70
    assert 0 == mq.depth("BOQ")


async def test_the_decision_about_a_failure_is_made_once(mq: QueueManagerKit) -> None:
    decisions: list[int] = []

    def decided(descriptor: Any, attributes: Any, deadq: str, behaviour: Any) -> Any:
        decisions.append(descriptor.backout_count)
        return decide(descriptor, attributes, deadq, behaviour) if len(decisions) == 1 else (Deliver(),)

    app, seen = App(decide=decided), []

    @app.listener("IN", backout=Backout(threshold=1))
    async def handle(order: Order) -> None:
        seen.append(order.number)
        if len(seen) == 1:
            raise ValueError("the first time only")

    await run_for(mq, 60, app, ORDER)

    assert [7] == seen
    assert [1] == decisions
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_of_two_messages_with_the_same_identifiers_the_one_that_failed_is_moved(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(order: Order) -> None:
        if order.number == 2:
            raise Reject("two")
        await anyio.sleep(60)

    twins: dict[str, Any] = {"message_id": b"t" * 24, "correlation_id": b"t" * 24}
    async with mq.run(app, drain_s=0):
        await mq.put("IN", {"number": 2}, **twins, priority=1)
        await anyio.sleep(1)
        await mq.put("IN", {"number": 1}, priority=9)
        await anyio.sleep(1)
        await mq.put("IN", {"number": 2}, **twins, priority=5)
        await mq.put("IN", {"number": 3}, **twins, priority=7)
        await anyio.sleep(300)

    assert [2, 2] == [found.json()["number"] for found in mq.browse("BOQ")]


async def test_a_queue_that_may_be_opened_once_only_has_its_poison_moved_on_the_same_session(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(IN) NOSHARE")
    app = App()

    @app.listener("IN")
    async def handle(order: Order) -> None:
        raise Reject("no")

    dead = await arrival(mq, app)

    assert ORDER == dead.json()


async def test_a_message_that_was_delivered_before_ends_its_unit_of_work_and_has_a_call_of_its_own(mq: QueueManagerKit) -> None:
    app = App()
    units: list[int] = []

    @app.listener("IN", batch=Batch(max=10, wait_ms=0))
    async def handle(orders: list[Order]) -> None:
        units.append(len(orders))

    for number in range(4):
        await mq.put("IN", {"number": number}, priority=5 if number else 4)  # the first message is delivered last
    connection = mq.queue_manager.connect()
    handle_ = connection.open("IN", OpenOption.INPUT_SHARED)
    found = connection.get(
        handle_, GetOptions(options=GetOption.SYNCPOINT, match=MatchOption.MSG_ID, message_id=mq.browse("IN")[-1].message_id)
    )
    assert found is not None
    connection.backout()
    connection.disconnect()
    await run_for(mq, 1, app, {"number": 9}, priority=0)

    assert [3, 1, 1] == units


async def test_a_full_queue_does_not_keep_others_from_their_turn(mq: QueueManagerKit, app: App) -> None:
    handled = 0

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        nonlocal handled
        handled += 1

    for _ in range(500):
        await mq.put("IN", b"x")
    turns = 0
    async with mq.run(app):
        while handled < 500:
            turns += 1
            await anyio.lowlevel.checkpoint()

    assert turns >= 4


async def test_hooks_for_start_and_stop_frame_the_work(mq: QueueManagerKit) -> None:
    app, story = App(), []

    @app.on_start
    async def opened() -> None:
        story.append("start")

    @app.on_stop
    def closed() -> None:
        story.append("stop")

    @app.listener("IN")
    async def handle(order: Order) -> None:
        story.append("message")

    await run_for(mq, 1, app, ORDER)

    assert ["start", "message", "stop"] == story


async def test_a_hook_that_raises_touches_no_message(mq: QueueManagerKit, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("hook")

    app = App(hooks=[broken])

    @app.listener("IN")
    async def handle(order: Order, ctx: Context) -> None:
        await ctx.put("OUT", order)

    async with mq.run(app):
        for _ in range(3):
            await mq.put("IN", ORDER)
        await mq.drain("OUT", at_least=3)

    assert 1 == sum("broken" in record.getMessage() for record in caplog.records)


async def test_plain_functions_run_beside_each_other_whichever_handler_gave_the_options(mq: QueueManagerKit, app: App) -> None:
    meeting = threading.Barrier(2, timeout=5)

    @app.listener("IN", where=lambda _: False, concurrency=2)
    def never(order: Order) -> None:
        raise AssertionError("never called")

    @app.listener("IN")
    def handle(order: Order) -> None:
        meeting.wait()  # fails if the other handler has to wait for a thread

    for _ in range(2):
        await mq.put("IN", ORDER)
    await run_for(mq, 1, app)

    assert (0, 0) == (mq.depth("IN"), mq.depth("BOQ"))
    assert [0, 0] == [event.backout_count for event in mq.told(Delivered)]


@pytest.mark.parametrize(
    ("error", "settlement"),
    [
        (ValueError("bad"), Settlement.BACKOUT),
        (Reject("never"), Settlement.COMMIT),  # moved in the unit of work of its delivery
        (Retry("later", after=60), Settlement.COMMIT),  # staged in the unit of work of its delivery
    ],
    ids=["failed", "rejected", "staged"],
)
async def test_a_handling_that_fails_took_as_long_as_it_took(
    mq: QueueManagerKit, app: App, error: Exception, settlement: Settlement
) -> None:
    @app.listener("IN", backout=Backout(pace=Pace(first_s=50, factor=1, max_s=50, jitter=0)))
    async def handle(body: bytes) -> None:
        await anyio.sleep(3)
        raise error

    async with mq.run(app):
        await mq.put("IN", b"x")
        await anyio.sleep(10 if settlement is Settlement.COMMIT else 55)
        [first, *_] = mq.told(Settled)

    assert settlement is first.settlement
    assert 3.0 == pytest.approx(first.handled_s)


async def test_a_handling_that_is_cut_off_took_as_long_as_it_ran(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN")
    async def handle(body: bytes) -> None:
        await anyio.sleep_forever()

    async with mq.run(app, drain_s=2):
        await mq.put("IN", b"x")
        await anyio.sleep(5)

    [settled] = mq.told(Settled)
    assert 7.0 == pytest.approx(settled.handled_s, abs=0.1)


async def test_a_message_is_staged_in_the_unit_of_work_of_other_messages(mq: QueueManagerKit, app: App) -> None:
    @app.listener("IN", unit_of_work=2)
    async def handle(body: bytes) -> None:
        await anyio.sleep(3)
        if body == b"x":
            raise Retry("later", after=60)

    for each in (b"good", b"x"):
        await mq.put("IN", each)
    await run_for(mq, 15, app)

    told = [(event.settlement, type(event.outcome), round(event.handled_s)) for event in mq.told(Settled)]
    assert [(Settlement.COMMIT, Completed, 3), (Settlement.COMMIT, Failed, 3)] == told


async def test_a_handler_that_puts_and_then_asks_for_a_pause_leaves_its_unit_of_work_to_the_staging(
    mq: QueueManagerKit, app: App
) -> None:
    @app.listener("IN")
    async def handle(body: bytes, ctx: Context) -> None:
        await ctx.put("OUT", body)
        raise Retry("later", after=60)

    await run_for(mq, 10, app, b"x")

    assert [Settlement.COMMIT] == [event.settlement for event in mq.told(Settled)]
    assert ([], []) == (mq.browse("IN"), mq.browse("OUT"))


@pytest.mark.parametrize("strict_order", [False, True])
async def test_a_message_with_the_identifiers_of_a_failing_message_is_still_handled(
    mq: QueueManagerKit, *, strict_order: bool
) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
    app, seen = App(), []

    @app.listener("IN", strict_order=strict_order)
    async def handle(body: bytes) -> None:
        seen.append(body)
        if body == b"bad":
            await mq.put("IN", b"good", priority=9, message_id=b"M" * 24, correlation_id=b"C" * 24)
            raise ValueError(body)

    await run_for(mq, 60, app, b"bad", message_id=b"M" * 24, correlation_id=b"C" * 24)

    assert [b"bad", b"good"] == seen
    assert [b"bad"] == [found.body for found in mq.browse("BOQ")]
