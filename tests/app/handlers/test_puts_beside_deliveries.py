"""During an outage, a call of the application in a handler fails without a wait: the handler's unit of work is lost.

A call outside a handler waits until the application stops. Source: IBM, a reconnection restores no unit of work.
"""

from collections.abc import Awaitable, Callable

import anyio
import anyio.from_thread
import pytest

from mqflow import App, Context, MQIError
from mqflow.events import Settled
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

LOST = {Reason.CONNECTION_BROKEN, Reason.Q_MGR_NOT_AVAILABLE, Reason.HOST_NOT_AVAILABLE}
OUTAGE_S = 60.0
queues = defining("OUT", bothresh=3, boqname="OUT")


async def put(app: App) -> None:
    await app.put("OUT", "from a handler")


async def publish(app: App) -> None:
    await app.publish("orders/new", "from a handler")


async def request(app: App) -> None:
    await app.request("OUT", "from a handler", reply=str, timeout_s=600)


async def consume(app: App) -> None:
    async with app.consumer("OUT"):
        pass


async def unsubscribe(app: App) -> None:
    await app.unsubscribe("ORDERS")


@pytest.mark.parametrize("noticed", [True, False], ids=["another worker reconnects", "nobody has noticed"])
@pytest.mark.parametrize("call", [put, publish, request, consume, unsubscribe])
async def test_a_call_within_a_handler_waits_for_no_connection_and_its_message_comes_again(
    mq: QueueManagerKit, call: Callable[[App], Awaitable[None]], *, noticed: bool
) -> None:
    app, took_s, refused = App(), [], []
    away, handled = mq.faults.outage(), anyio.Event()

    @app.listener("IN", concurrency=2)
    async def handle(body: str, ctx: Context) -> None:
        if ctx.message.backout_count:
            handled.set()
            return
        away.__enter__()
        await anyio.sleep(10 if noticed else 0)
        began = mq.clock.monotonic()
        try:
            await call(app)
        except MQIError as error:
            refused.append(error.reason)
            raise
        finally:
            took_s.append(mq.clock.monotonic() - began)

    async with mq.run(app):
        await mq.put("IN", "an order")
        await anyio.sleep(OUTAGE_S)
        away.__exit__(None, None, None)
        with anyio.fail_after(OUTAGE_S):
            await handled.wait()

    assert [0] == took_s
    (reason,) = refused
    assert reason in LOST
    assert Settlement.BACKOUT is mq.told(Settled)[0].settlement


async def test_a_put_within_a_handler_does_not_wait_behind_one_from_elsewhere_that_waits(mq: QueueManagerKit) -> None:
    app, took_s, found = App(), [], []
    away = mq.faults.outage()

    @app.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        if ctx.message.backout_count == 0:
            away.__enter__()
            await anyio.sleep(10)
        began = mq.clock.monotonic()
        try:
            await app.put("OUT", body)
        finally:
            took_s.append(mq.clock.monotonic() - began)

    async with mq.run(app), anyio.create_task_group() as group:
        await mq.put("IN", "an order")
        await anyio.sleep(5)
        group.start_soon(app.put, "OUT", "from elsewhere")
        await anyio.sleep(OUTAGE_S)
        assert [0] == took_s
        away.__exit__(None, None, None)
        found = await mq.drain("OUT", at_least=2)

    assert {"an order", "from elsewhere"} == {each.text() for each in found}


async def test_a_task_that_outlives_its_handler_waits_as_anybody_does(mq: QueueManagerKit) -> None:
    app, found = App(), []
    away = mq.faults.outage()

    async with anyio.create_task_group() as group:

        @app.listener("IN")
        async def handle(body: str) -> None:
            group.start_soon(later, body)

        async def later(body: str) -> None:
            await anyio.sleep(10)
            with away:
                await anyio.sleep(10)
                group.start_soon(app.put, "OUT", body)
                await anyio.sleep(10)

        async with mq.run(app):
            await mq.put("IN", "an order")
            found = await mq.drain("OUT")

    assert ["an order"] == [each.text() for each in found]


async def test_a_handler_in_a_thread_is_within_its_delivery_too(mq: QueueManagerKit) -> None:
    app, refused = App(), []
    away = mq.faults.outage()

    @app.listener("IN")
    def handle(body: str, ctx: Context) -> None:
        if ctx.message.backout_count:
            return
        away.__enter__()
        try:
            anyio.from_thread.run(app.put, "OUT", body)
        except MQIError as error:
            refused.append(error.reason)
            raise

    async with mq.run(app):
        await mq.put("IN", "an order")
        await anyio.sleep(OUTAGE_S)
        away.__exit__(None, None, None)

    (reason,) = refused
    assert reason in LOST


async def test_a_handler_that_puts_does_not_hold_up_the_controlled_end_of_its_queue_manager(mq: QueueManagerKit) -> None:
    app, refused = App(), []

    @app.listener("IN")
    async def handle(body: str) -> None:
        mq.queue_manager.stop(immediate=False)
        try:
            await app.put("OUT", body)
        except MQIError as error:
            refused.append(error.reason)
            raise

    async def run() -> None:
        await run_for(mq, OUTAGE_S, app, "an order")

    with pytest.raises(MQIError, match="2059"):  # an embedded queue manager in this process does not come back
        await run()

    assert [Reason.Q_MGR_QUIESCING] == refused
    assert mq.queue_manager.stopped


@pytest.mark.parametrize("listen", [True, False])
async def test_a_put_at_the_end_of_an_application_waits_for_no_queue_manager(mq: QueueManagerKit, *, listen: bool) -> None:
    app, refused = App(), []

    @app.on_stop
    async def say_goodbye() -> None:
        for _ in range(2):  # the first put loses its session; no put gets another session
            with pytest.raises(MQIError) as caught:
                await app.put("OUT", "goodbye")
            refused.append(caught.value.reason)

    queue_manager = mq.faults.wrap(mq.queue_manager)
    async with app.running(queue_manager, clock=mq.clock, random=mq.random, listen=listen):
        await app.put("OUT", "hello")
        away = mq.faults.outage()
        away.__enter__()
        began = mq.clock.monotonic()
    away.__exit__(None, None, None)

    assert [Reason.CONNECTION_QUIESCING] * 2 == refused
    assert mq.clock.monotonic() - began < 1
