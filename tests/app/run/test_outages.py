"""A running application after a connection that breaks at any call, and after a commit without an answer."""

import anyio
import msgspec
import pytest

from mqflow import App, Backout, Context, Interrupted, MQIError, Pace
from mqflow.app.config.settings import ReconnectSettings, Settings
from mqflow.events import InDoubt, ListenerPaused, ListenerResumed, Reconnected, Reconnecting, Settled, Warned
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from tests.conformance.under_test import refused
from tests.running import defining, moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Order(msgspec.Struct):
    number: int


queues = defining("OUT", "BOQ", bothresh=3, boqname="BOQ")


def booking_app(settings: Settings | None = None) -> App:
    app = App(settings=settings)

    @app.listener("IN", concurrency=2)
    async def book(order: Order, ctx: Context) -> None:
        if order.number < 0:
            raise ValueError("negative")
        await ctx.put("OUT", order)

    return app


async def test_the_first_put_of_an_application_after_an_outage_is_not_refused_for_it(mq: QueueManagerKit) -> None:
    app = booking_app()
    async with mq.run(app):
        await app.put("IN", Order(1))
        await mq.drain("OUT")
        with mq.faults.outage():
            await anyio.sleep(60)
        await anyio.sleep(60)
        await app.put("IN", Order(2))
        [out] = await mq.drain("OUT", within_s=60)

    assert {"number": 2} == out.json()


@pytest.mark.parametrize("own", [True, False], ids=["of the worker", "of another queue manager"])
async def test_a_worker_pauses_for_a_failed_handler_unless_its_own_connection_is_lost(
    mq: QueueManagerKit, *, own: bool
) -> None:
    app, began = App(), list[float]()

    @app.listener("IN", backout=Backout(threshold=5, pace=Pace(first_s=300, max_s=300)))
    async def book(order: Order, ctx: Context) -> None:
        began.append(anyio.current_time())
        if len(began) == 1:
            raise ValueError("the first failure lets the worker inquire the attributes of the queue")
        if len(began) == 2:
            if not own:
                raise MQIError(Reason.CONNECTION_BROKEN, "MQPUT", "ELSEWHERE")
            mq.faults.add(Fault(verb="MQOPEN", object_name="OUT"))
        await ctx.put("OUT", order)

    await moved(mq, app, Order(1), "OUT", within_s=1_000)

    _, second, third = began
    assert (third - second < 60) is own


async def test_after_an_outage_the_queue_is_open_again_and_messages_go_on(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        await mq.put("IN", {"number": 1})
        await mq.drain("OUT")
        with mq.faults.outage():
            await anyio.sleep(60)
            await mq.put("IN", {"number": 2})
        [out] = await mq.drain("OUT", within_s=60)

    assert {"number": 2} == out.json()
    [back] = mq.told(Reconnected)
    assert 1 == back.generation
    assert back.downtime_ms >= 60_000
    attempts = [event.attempt for event in mq.told(Reconnecting)]
    assert attempts == sorted(attempts)
    assert 1 == attempts.count(0)  # two workers lost their connections, and one outage was reported
    assert len(attempts) < 10


async def test_attempts_to_reconnect_follow_the_ladder(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        with mq.faults.outage():
            await anyio.sleep(100)
        await anyio.sleep(40)

    delays = [event.delay_s for event in mq.told(Reconnecting) if event.attempt]
    ladder = [(1, 0.25), (2, 0.5), (4, 1), (8, 2), (16, 4), (25, 6.25)]
    for (fixed_s, random_s), delay_s in zip(ladder, delays[: len(ladder)], strict=True):
        assert fixed_s <= delay_s <= fixed_s + random_s


async def test_attempts_follow_the_ladder_that_is_set(mq: QueueManagerKit) -> None:
    every_ten_s = Settings(reconnect=ReconnectSettings(delays="(3000)(10000,500)"))

    async with mq.run(booking_app(every_ten_s)):
        with mq.faults.outage():
            await anyio.sleep(60)
        await anyio.sleep(20)

    delays = [event.delay_s for event in mq.told(Reconnecting) if event.attempt]
    assert 3 == delays[0]
    assert len(delays) >= 4
    assert all(10 <= delay_s <= 10.5 for delay_s in delays[1:])


async def run_into_an_outage(mq: QueueManagerKit, settings: Settings) -> None:
    """Run an application whose queue manager ends after a second and does not come back."""
    async with mq.run(booking_app(settings)):
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(600)


async def test_where_the_time_limit_is_over_the_application_ends_and_says_so(mq: QueueManagerKit) -> None:
    began = mq.clock.monotonic()

    with refused(Reason.RECONNECT_TIMED_OUT) as caught:
        await run_into_an_outage(mq, Settings(reconnect=ReconnectSettings(limit_s=30)))

    assert "the limit for getting it back is 30 s" in str(caught.value)
    assert 31 <= mq.clock.monotonic() - began <= 32
    assert 16 > mq.told(Reconnecting)[-1].delay_s  # the fifth wait was shortened, so that the last attempt is at the time limit


async def test_a_connection_that_is_back_within_the_limit_goes_on(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app(Settings(reconnect=ReconnectSettings(limit_s=30)))):
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(20)
        await mq.put("IN", {"number": 1})
        [out] = await mq.drain("OUT", within_s=60)

    assert {"number": 1} == out.json()


async def test_a_stop_during_an_outage_waits_for_no_queue_manager(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app(), drain_s=600) as running:
        await anyio.sleep(1)
        outage = mq.faults.outage()
        outage.__enter__()
        await anyio.sleep(60)
        stopped_at = mq.clock.monotonic()
    outage.__exit__(None, None, None)

    assert not running.cut_off
    assert mq.clock.monotonic() - stopped_at < 1


async def test_a_stop_while_it_starts_waits_for_no_queue_manager_and_starts_nothing_more(mq: QueueManagerKit) -> None:
    app, outage = booking_app(), mq.faults.outage()
    ready: list[bool] = []
    ended_at: list[float] = []

    @app.listener("BOQ")
    async def look(order: Order) -> None: ...

    @app.on_start
    async def reach_it_and_lose_it() -> None:
        await app.put("IN", Order(1))
        outage.__enter__()

    async def stop() -> None:
        await anyio.sleep(60)
        app.stop()
        with anyio.move_on_after(60, shield=True):
            await ended.wait()
        outage.__exit__(None, None, None)  # so that an application that did not stop can end, too late

    ended = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        async with mq.run(app) as running:
            ready.append(running.ready)
        ended_at.append(mq.clock.monotonic())
        ended.set()

    assert [False] == ready
    assert 60 <= ended_at[0] < 61
    assert 1 == len(mq.browse("IN"))


async def test_an_embedded_queue_manager_that_has_stopped_ends_the_application_with_its_reason(mq: QueueManagerKit) -> None:
    async def run() -> None:
        async with mq.run(booking_app()):
            mq.queue_manager.stop()
            await anyio.sleep(3600)

    with pytest.raises(MQIError, match=r"MQCONNX \(QM1\) failed: MQRC_Q_MGR_NOT_AVAILABLE \(2059\)"):
        await run()

    assert [] == mq.told(Reconnecting)


async def test_a_commit_without_an_answer_is_in_doubt_and_never_repeated(mq: QueueManagerKit) -> None:
    app = booking_app()
    async with mq.run(app):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER))
        put = await mq.put("IN", {"number": 1})
        await anyio.sleep(60)

    [doubt] = mq.told(InDoubt)
    assert (put.descriptor.message_id,) == doubt.message_ids
    assert 1 == len(doubt.put_message_ids)
    assert 1 == sum(call.verb == "MQCMIT" for call in mq.faults.calls)
    assert [] == [event for event in mq.told(Settled) if event.settlement is Settlement.COMMIT]
    assert (0, 1) == (mq.depth("IN"), mq.depth("OUT"))


async def test_a_move_whose_commit_got_no_answer_is_in_doubt_and_not_repeated_blindly(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1)")
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.AFTER))
        put = await mq.put("IN", {"number": -1})
        await anyio.sleep(60)

    [doubt] = mq.told(InDoubt)
    assert (put.descriptor.message_id,) == doubt.message_ids
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))
    assert [] == mq.told(ListenerPaused)


async def test_after_an_outage_the_attributes_are_inquired_again(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        await mq.put("IN", {"number": -1})
        await mq.drain("BOQ")
        with mq.faults.outage():
            mq.define("OTHER.BOQ")
            mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(1) BOQNAME(OTHER.BOQ)")
        await mq.put("IN", {"number": -2})
        [dead] = await mq.drain("OTHER.BOQ", within_s=60)

    assert 1 == dead.why.count


async def test_a_commit_that_was_backed_out_is_no_doubt_and_the_message_comes_again(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
        await mq.put("IN", {"number": 1})
        await mq.drain("OUT")

    assert [] == mq.told(InDoubt)


async def test_a_listener_pauses_if_commit_after_commit_is_backed_out_and_continues_after_a_success(
    mq: QueueManagerKit,
) -> None:
    app = booking_app()
    async with mq.run(app):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT, times=5))
        await mq.put("IN", {"number": 1})
        await mq.drain("OUT")

    assert [Reason.BACKED_OUT] * 4 == [paused.reason for paused in mq.told(ListenerPaused)]
    assert 1 == len(mq.told(ListenerResumed))


async def test_a_connection_that_breaks_under_a_handler_gives_the_message_back_and_costs_it_no_life(
    mq: QueueManagerKit,
) -> None:
    mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(2)")
    app, counts = App(), []

    @app.listener("IN")
    async def handle(order: Order, ctx: Context) -> None:
        counts.append(ctx.message.backout_count)
        if len(counts) == 1:
            mq.faults.break_connections()
        await ctx.put("OUT", order)

    await moved(mq, app, {"number": 1}, "OUT")

    assert [0, 1] == counts
    backed_out, committed = mq.told(Settled)
    assert (Settlement.BACKOUT, Settlement.COMMIT) == (backed_out.settlement, committed.settlement)
    assert backed_out.message_ids == committed.message_ids
    assert isinstance(backed_out.outcome, Interrupted)
    assert "2009" in backed_out.outcome.why


@pytest.mark.mq_faults("every-call")
async def test_wherever_the_connection_breaks_every_order_is_booked_once_and_every_poison_message_is_moved(
    mq: QueueManagerKit,
) -> None:
    for name in ("OUT", "BOQ"):
        if mq.queue_manager.administration.queue(name) is None:
            mq.define(name)
    if mq.queue_manager.administration.queue("IN") is None:
        mq.define("IN", bothresh=3, boqname="BOQ")
    await mq.put("IN", {"number": 1})
    await mq.put("IN", {"number": -1})
    await mq.put("IN", {"number": 2})

    await run_for(mq, 120, booking_app())

    assert [1, 2] == sorted(found.json()["number"] for found in mq.browse("OUT"))
    assert [-1] == [found.json()["number"] for found in mq.browse("BOQ")]
    assert 0 == mq.depth("IN")


@pytest.mark.parametrize("at", ["MQINQ", "MQBACK"])
async def test_a_failed_unit_that_loses_its_connection_is_reported_as_backed_out_once(mq: QueueManagerKit, at: str) -> None:
    async with mq.run(booking_app()):
        mq.faults.add(Fault(verb=at))
        put = await mq.put("IN", {"number": -1})
        await mq.drain("BOQ")

    first, *others = mq.told(Settled)
    assert (Settlement.BACKOUT, (put.descriptor.message_id,)) == (first.settlement, first.message_ids)
    assert isinstance(first.outcome, Interrupted)
    assert not any(isinstance(each.outcome, Interrupted) for each in others)


async def test_an_inhibited_queue_makes_the_listener_rest_and_go_on_when_it_is_allowed_again(mq: QueueManagerKit) -> None:
    async with mq.run(booking_app()):
        mq.mqsc("ALTER QLOCAL(IN) GET(DISABLED)")
        await anyio.sleep(300)
        await mq.put("IN", {"number": 1})
        mq.mqsc("ALTER QLOCAL(IN) GET(ENABLED)")
        await mq.drain("OUT", within_s=120)

    assert {2016} == {event.reason for event in mq.told(ListenerPaused)}
    assert len(mq.told(ListenerPaused)) < 30


async def test_a_queue_that_does_not_exist_is_an_error_at_the_start_that_names_it(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("NOWHERE")
    async def handle(order: Order) -> None:
        raise AssertionError("never called")

    with pytest.raises(MQIError, match=r"MQOPEN on NOWHERE \(QM1\) failed: MQRC_UNKNOWN_OBJECT_NAME \(2085\)"):
        await run_for(mq, 1, app)


async def test_a_listener_waits_for_a_queue_that_another_program_holds_exclusively(mq: QueueManagerKit) -> None:
    holder = mq.queue_manager.connect()
    holder.open("IN", OpenOption.INPUT_EXCLUSIVE)
    async with mq.run(booking_app()):
        await mq.put("IN", {"number": 1})
        await anyio.sleep(60)
        before = mq.depth("OUT")
        holder.disconnect()
        await mq.drain("OUT", within_s=120)

    assert 0 == before
    assert {2042} == {event.reason for event in mq.told(ListenerPaused)}


async def test_settings_that_cannot_be_inquired_stop_delivery_after_one_failure_and_a_warning(mq: QueueManagerKit) -> None:
    app = booking_app()
    mq.faults.add(Fault(verb="MQINQ", reason=Reason.NOT_AUTHORIZED, times=10**6))
    await run_for(mq, 600, app, {"number": -1})

    assert "2035" in mq.told(Warned)[0].text
    assert {2035} == {event.reason for event in mq.told(ListenerPaused)}
    [still] = mq.browse("IN")
    assert 2 == still.backout_count  # a failure, and the other worker, which was waiting for a message at that time


async def test_a_put_outside_deliveries_that_fails_leaves_the_next_one_working(mq: QueueManagerKit) -> None:
    async with mq.run(app := booking_app()):
        with pytest.raises(MQIError, match="2085"):
            await app.put("NOWHERE", b"x")
        await app.put("OUT", b"y")

    assert [b"y"] == [found.body for found in mq.browse("OUT")]
