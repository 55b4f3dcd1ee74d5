"""The supervisor reconnects to a remote queue manager: served, or through pymqi or ibmmq, on both event loops.

`tests/app/channels/test_reconnect_settings.py` tests the same on the embedded queue manager. Source: IBM, "Automatic JMS client
reconnection with CCDTs" ("reopens all of the objects that the application had open"), q017800. A connection breaks at every
call in turn. Each client and loop tests a part of the calls; with MQFLOW_TEST_EVERY_CALL=1, each client and loop tests all
calls.
"""

import logging
import os
from pathlib import Path
from typing import Final

import anyio
import pytest

from mqflow import App, Backout, Context, MQIError
from mqflow.app.handlers import outgoing_message
from mqflow.events import Disposed, InDoubt, ListenerStarted, Reconnected, ReopenRefused
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import redelivery_delay
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.runtime.connection import threaded_session
from mqflow.testing.faults import Moment
from mqflow.verbs import QueueManager
from tests.runtime.connection.breaking import WAYS, Behind, Hearing, application, fixtures

QUEUES: Final = (
    "DEFINE QLOCAL(OUT)",
    "DEFINE QLOCAL(AUDIT)",
    "DEFINE QLOCAL(BOQ)",
    "DEFINE QLOCAL(SECOND)",
    "DEFINE QLOCAL(IN) BOTHRESH(2) BOQNAME(BOQ)",  # a broken connection adds 1 to BackoutCount
)
BACKENDS: Final = ("asyncio", "trio")
EVERY: Final = bool(os.environ.get("MQFLOW_TEST_EVERY_CALL"))
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS), pytest.mark.sampled(2)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for messages and the pauses after refusals."""
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 20)
    monkeypatch.setattr(redelivery_delay, "REFUSED", Pace(first_s=0.001, max_s=0.01))
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)


behind, reached = fixtures(*QUEUES)


def booking(name: str, *, strict_order: bool = False) -> App:
    app = application(name)

    @app.listener("IN", strict_order=strict_order, backout=Backout(pace=Pace(first_s=0.001, max_s=0.01)))
    async def book(body: str, ctx: Context) -> None:
        if body == "bad":
            raise ValueError(body)
        await ctx.put("OUT", body)
        await ctx.put("AUDIT", body)

    @app.listener("SECOND")
    async def second(body: str, ctx: Context) -> None:
        await ctx.put("OUT", body)

    return app


async def test_everything_is_open_again_and_works(behind: Behind, reached: QueueManager) -> None:
    app = booking("everything", strict_order=True)
    prices: list[str] = []

    @app.listener(topic="Prices/#")
    async def note(body: str) -> None:
        prices.append(body)

    @app.listener("ASKED", concurrency=2)
    async def answer(body: str, ctx: Context) -> None:
        if not ctx.message.backout_count and body == "broken":
            behind.break_all()
        await app.put(ctx.message.descriptor.reply_to_queue, body.upper(), correlation_id=ctx.message.message_id)

    behind.mqsc("DEFINE QLOCAL(ASKED)")
    hearing = Hearing(app)

    async with app.running(reached) as running:
        behind.put("IN", "1")
        await hearing.until(lambda: behind.depth("AUDIT") == 1 and not behind.depth("IN"))
        before = len(behind.opened)
        behind.break_all()
        # The target queues of handlers are open again before the first put.
        everything = {"IN", "OUT", "AUDIT", "SECOND", "Prices/#"}
        await hearing.until(lambda: everything <= set(behind.opened[before:]) and running.ready)
        behind.put("IN", "bad", "2")
        behind.put("SECOND", "3")
        await hearing.until(lambda: behind.depth("OUT") == 3 and behind.depth("BOQ") == 1 and not behind.depth("IN"))
        with pytest.raises(MQIError, match="2042"):  # it was opened exclusively before
            behind.queue_manager.connect().open("IN", OpenOption.INPUT_SHARED)
        assert "BROKEN" == await app.request("ASKED", "broken", reply=str, timeout_s=40)
        await running.wait_ready()
        await app.publish("Prices/IBM", "17")
        await hearing.until(lambda: prices == ["17"])

    assert ["1", "2", "3"] == sorted(behind.bodies("OUT"))
    assert ["bad"] == [body[-3:] for body in behind.bodies("BOQ")]
    # The temporary reply queue of the broken request is gone with its connection; a session that had opened it says so.
    assert [] == [event for event in hearing.told(ReopenRefused) if not event.object.startswith("AMQ.")]
    assert [1, 2] == [event.generation for event in hearing.told(Reconnected)]  # two outages


@pytest.mark.timeout(60)  # without the interrupt, a wait for messages over a socket ends after two minutes
async def test_an_exception_inside_the_application_ends_the_waits_of_its_workers(reached: QueueManager) -> None:
    with pytest.raises(LookupError, match="a mistake of the application"):
        async with booking("raises").running(reached):
            raise LookupError("a mistake of the application")


async def test_a_queue_that_is_gone_is_named_and_holds_up_its_own_listener_only(behind: Behind, reached: QueueManager) -> None:
    app = booking("refused")
    hearing = Hearing(app)
    async with app.running(reached) as running:
        with behind.outage():
            behind.mqsc("DELETE QLOCAL(IN)")
        behind.put("SECOND", "still there")
        await hearing.until(lambda: behind.depth("OUT") == 1 and bool(hearing.told(ReopenRefused)))
        assert not running.ready
        behind.mqsc(QUEUES[-1])
        behind.put("IN", "again")
        await hearing.until(lambda: behind.depth("AUDIT") == 1 and not behind.depth("IN"))
        await running.wait_ready()

    refused = hearing.told(ReopenRefused)[0]
    assert ("IN", "listener book (0)", Reason.RECONNECT_FAILED) == (refused.object, refused.owner, refused.reason)
    assert "2085" in refused.detail


async def test_a_queue_manager_that_was_created_again_under_the_old_name_is_refused(
    behind: Behind, reached: QueueManager
) -> None:
    app = booking("created again")
    hearing = Hearing(app)

    async def outage() -> None:
        async with app.running(reached):
            await hearing.until(lambda: len(hearing.told(ListenerStarted)) == 2)
            with behind.outage():
                behind.create_anew(*QUEUES)
            await anyio.sleep(40)

    with pytest.raises(MQIError) as caught:
        await outage()

    assert Reason.RECONNECT_QMID_MISMATCH == caught.value.reason
    assert "QMID" in str(caught.value)


async def test_a_consumer_of_a_durable_subscription_goes_on(behind: Behind, reached: QueueManager) -> None:
    app = application("consumer")
    received: list[str] = []
    async with app.running(reached, listen=False), app.consumer(topic="Prices/#", durable="desk") as consumer:
        for body in ("1", "2"):
            await app.publish("Prices/Oil", body)
            received.append(await consumer.receive(str))
            await consumer.commit()
            behind.break_all()
        assert await consumer.receive_no_wait() is None

    assert ["1", "2"] == received


# -- every call


async def run_with(way: str, folder: Path, call: int, moment: Moment) -> Behind:
    """Handle two good messages and one bad message, with the connection broken at this call. Check the queues at the end."""
    behind, app = Behind(*QUEUES), booking("every call")
    hearing = Hearing(app)
    try:
        with behind.reached(way, folder) as reached:
            async with app.running(reached):
                behind.break_at(call, moment)
                behind.put("IN", "1", "bad", "2")
                await hearing.until(lambda: not behind.depth("IN") and behind.depth("BOQ") >= 1 and behind.depth("OUT") >= 2)
        assert ["1", "2"] == sorted(behind.bodies("OUT"))
        assert ["1", "2"] == sorted(behind.bodies("AUDIT"))
        assert ["bad"] == [body[-3:] for body in behind.bodies("BOQ")]
        assert 0 == behind.depth("IN")
        assert len(hearing.told(InDoubt)) <= 1
        assert len(hearing.told(Disposed)) <= 1
    finally:
        behind.close()
    return behind


async def test_wherever_the_connection_breaks_each_message_is_handled_or_moved_once(
    way: str, anyio_backend: str, tmp_path: Path
) -> None:
    calls = (await run_with(way, tmp_path, 0, Moment.BEFORE)).calls
    mine = WAYS.index(way) * len(BACKENDS) + BACKENDS.index(anyio_backend)
    ways = 1 if EVERY else len(WAYS) * len(BACKENDS)

    for call in range(1, calls + 1):
        for number, moment in enumerate(Moment):
            if (2 * call + number - mine) % ways == 0:
                try:
                    await run_with(way, tmp_path, call, moment)
                except BaseException as error:
                    error.add_note(f"with the connection broken {moment.value}, at call {call} of {calls}")
                    raise


async def test_a_put_that_is_not_part_of_its_unit_of_work_is_found(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing_message, "_PUT", PutOption.NO_SYNCPOINT)

    async def at_each_call() -> None:
        for call in (*range(1, 100), *range(1, 100), *range(1, 100)):  # threads meet by chance: up to three series
            await run_with(way, tmp_path, call, Moment.BEFORE)

    with pytest.raises(AssertionError, match=r"'1', '1', '2'|'1', '2', '2'"):  # one of the two messages is doubled
        await at_each_call()
