"""The kit and the plugin: an application, unchanged, on a queue manager in memory. No conftest, no marker, no patching."""

import math
from typing import Any

import anyio
import msgspec
import pytest

from mqflow import Backout, ConfigurationError
from mqflow.app.application import App
from mqflow.app.handlers.context import Context
from mqflow.app.handlers.message import Message
from mqflow.events import Decided, Reconnected, Settled
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.testing.faults import FOREVER, Fault
from mqflow.testing.kit import MQSCError, QueueManagerKit

app = App("embedded::memory:?qmgr=QM1", name="flights")


class Flight(msgspec.Struct):
    carrier: str
    flight: int
    origin: str
    dest: str
    arr_delay: float


@app.listener("FLIGHTS.IN", concurrency=4)
async def book(flight: Flight, message: Message, ctx: Context) -> None:
    if flight.origin == flight.dest:
        raise ValueError("a flight to where it starts")
    await ctx.put("FLIGHTS.BOOKED", flight)


jobs = App("embedded::memory:?qmgr=QM1", name="jobs")


@jobs.listener("SLOW")
def work(job: dict[str, int], ctx: Context) -> None:
    ctx.put_blocking("DONE", job)


GOOD = b'{"carrier":"UA","flight":1,"origin":"EWR","dest":"IAH","arr_delay":11}'
CANCELLED = b'{"carrier":"UA","flight":1,"origin":"EWR","dest":"IAH","arr_delay":null}'
ROUND_TRIP = b'{"carrier":"UA","flight":1,"origin":"EWR","dest":"EWR","arr_delay":3}'

both = pytest.mark.mq_backend("asyncio", "trio")


@pytest.fixture
def queues(mq: QueueManagerKit) -> None:
    mq.mqsc(
        "DEFINE QLOCAL('FLIGHTS.IN') BOTHRESH(3) BOQNAME('FLIGHTS.BOQ')",
        "DEFINE QLOCAL('FLIGHTS.BOQ')",
        "DEFINE QLOCAL('FLIGHTS.BOOKED')",
    )


@both
async def test_a_cancelled_flight_ends_on_the_backout_queue(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        await mq.put("FLIGHTS.IN", CANCELLED)
        [dead] = await mq.drain("FLIGHTS.BOQ")

    assert dead.why.outcome == "undecodable"
    assert dead.why.handler == "book"
    assert dead.why.queue == "FLIGHTS.IN"
    assert dead.json()["arr_delay"] is None
    assert dead.body == CANCELLED
    assert dead.descriptor.format == "MQHRF2"


@both
async def test_a_flight_is_booked(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        await mq.put("FLIGHTS.IN", GOOD)
        [booked] = await mq.drain("FLIGHTS.BOOKED")

    assert booked.json() == msgspec.json.decode(GOOD)
    assert booked.why.outcome == ""
    assert mq.depth("FLIGHTS.IN") == 0
    assert [Settlement.COMMIT] == [settled.settlement for settled in mq.told(Settled)]


@both
async def test_a_failing_flight_is_tried_as_often_as_the_threshold_says(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        await mq.put("FLIGHTS.IN", ROUND_TRIP)
        [dead] = await mq.drain("FLIGHTS.BOQ")

    assert dead.why.outcome == "failed"
    assert "a flight to where it starts" in dead.why.text
    assert dead.why.count == 3
    assert mq.told(Decided)


async def test_the_pauses_before_redelivery_take_virtual_time(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        await mq.put("FLIGHTS.IN", ROUND_TRIP)
        before = mq.clock.monotonic()
        await mq.drain("FLIGHTS.BOQ")

    assert mq.clock.monotonic() > before


async def test_a_message_with_properties_of_its_own_says_why_nevertheless(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        await mq.put("FLIGHTS.IN", CANCELLED, properties={"colour": "red"})
        [dead] = await mq.drain("FLIGHTS.BOQ")

    assert dead.properties == {"colour": "red"}
    assert dead.why.outcome == "undecodable"
    assert dead.why.error


@both
async def test_a_handler_that_is_not_async_runs_on_one_event_loop_after_the_other(mq: QueueManagerKit) -> None:
    mq.mqsc("DEFINE QLOCAL(SLOW)", "DEFINE QLOCAL(DONE)")

    async with mq.run(jobs):
        await mq.put("SLOW", {"n": 1})
        [done] = await mq.drain("DONE")

    assert done.json() == {"n": 1}


async def test_put_takes_fields_of_the_descriptor(mq: QueueManagerKit) -> None:
    mq.define("Q", defpsist="YES")

    await mq.put("Q", "text", correlation_id=b"c" * 24, priority=7)

    [found] = mq.browse("Q")
    assert (b"c" * 24, 7, True) == (found.descriptor.correlation_id, found.descriptor.priority, found.descriptor.persistent)
    assert found.text() == "text"
    assert mq.depth("Q") == 1


async def test_the_error_of_put_names_an_unknown_field(mq: QueueManagerKit) -> None:
    mq.define("Q")

    with pytest.raises(TypeError, match=r"colour: not a field of a message descriptor. Fields: report, "):
        await mq.put("Q", b"", colour="red")


def test_definitions_take_mqsc_keywords(mq: QueueManagerKit) -> None:
    mq.define("orders.in", bothresh=3, boqname="orders.BOQ", descr="it's here")

    queue = mq.queue_manager.administration.queue("orders.in")

    assert queue is not None
    assert (3, "orders.BOQ", "it's here") == (queue.backout_threshold, queue.backout_requeue_queue, queue.description)


def test_mqsc_that_is_refused_is_an_error_with_its_text(mq: QueueManagerKit) -> None:
    with pytest.raises(MQSCError, match=r"column"):
        mq.mqsc("DEFINE QLOCAL('A')", "DEFINE QLOCAL('B') BOTRESH(3)")


async def test_the_error_of_an_empty_drain_lists_the_queues(mq: QueueManagerKit) -> None:
    mq.define("EMPTY")
    mq.define("OTHER")
    await mq.put("OTHER", b"")

    with pytest.raises(AssertionError, match=r"0 of at least 1 messages came to EMPTY within 60 virtual seconds") as caught:
        await mq.drain("EMPTY")

    assert "OTHER: 1" in str(caught.value)


async def test_a_drain_of_a_queue_that_never_becomes_quiet_fails_its_test(mq: QueueManagerKit) -> None:
    mq.define("TICKS")
    async with anyio.create_task_group() as ticking:

        async def tick() -> None:
            while True:
                await mq.put("TICKS", b"")
                await anyio.sleep(0.9)

        ticking.start_soon(tick)
        with pytest.raises(AssertionError, match="messages came to TICKS, and they still come"):
            await mq.drain("TICKS")
        ticking.cancel_scope.cancel()


async def test_a_drain_may_wait_long_without_messages(mq: QueueManagerKit) -> None:
    mq.define("Q")
    await mq.put("Q", b"")

    assert 1 == len(await mq.drain("Q", quiet_s=601))


@pytest.mark.parametrize("given", [{"at_least": "1"}, {"within_s": None}, {"quiet_s": "1 s"}])
async def test_a_drain_until_no_number_is_refused(mq: QueueManagerKit, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=rf"drain\({next(iter(given))}=.*: it takes a number of (messages|seconds)"):
        await mq.drain("Q", **given)


@pytest.mark.parametrize("given", ["app:app", None, App])
async def test_the_error_for_another_object_than_an_application_says_what_to_give(mq: QueueManagerKit, given: Any) -> None:
    with pytest.raises(TypeError, match="it takes the App itself"):
        async with mq.run(given):
            pass


async def test_a_kit_with_another_clock_is_refused(mq: QueueManagerKit) -> None:
    whole = App()
    whole.include_app(App("embedded::memory:?qmgr=QM2", name="archive"))

    with pytest.raises(ValueError, match=r"this kit has another clock\. mq\.beside\('QM2'\) makes one"):
        async with mq.run(whole, others={"archive": QueueManagerKit("QM2")}):
            pass


@pytest.mark.parametrize("drain_s", [-1, math.nan, "5"])
async def test_a_time_to_drain_that_is_not_a_number_of_seconds_is_refused(mq: QueueManagerKit, drain_s: Any) -> None:
    with pytest.raises(ConfigurationError, match="it takes 0 or more seconds, or None for the settings"):
        async with mq.run(App(), drain_s=drain_s):
            pass


@pytest.mark.parametrize(
    ("field", "said"),
    [({"priority": "high"}, "takes int"), ({"correlation_id": "A-1"}, "takes bytes"), ({"reply_to_queue": b"Q"}, "takes str")],
)
async def test_a_field_of_another_type_is_refused(mq: QueueManagerKit, field: dict[str, Any], said: str) -> None:
    mq.define("IN")

    with pytest.raises(TypeError, match=said):
        await mq.put("IN", b"", **field)


async def test_a_drain_may_expect_nothing(mq: QueueManagerKit) -> None:
    mq.define("EMPTY")

    assert await mq.drain("EMPTY", at_least=0) == []


async def test_time_is_the_queue_managers_too(mq: QueueManagerKit) -> None:
    mq.define("Q")
    await mq.put("Q", b"", expiry=30)

    await anyio.sleep(20)
    [found] = mq.browse("Q")
    await anyio.sleep(11)

    assert found.descriptor.expiry_tenths == 100
    assert mq.browse("Q") == []


async def test_the_kit_removes_its_hooks_from_the_application(mq: QueueManagerKit, queues: None) -> None:
    hooks = list(app.hooks)

    async with mq.run(app):
        pass

    assert hooks == app.hooks


@both
@pytest.mark.parametrize("at_the_start", [True, False])
async def test_an_application_that_does_not_start_or_does_not_end_fails_its_test(
    mq: QueueManagerKit, *, at_the_start: bool
) -> None:
    stuck = App("embedded::memory:?qmgr=QM1", name="stuck")

    @(stuck.on_start if at_the_start else stuck.on_stop)
    async def look_again_and_again() -> None:
        while True:  # noqa: ASYNC110 - as code that never ends
            await anyio.sleep(60)

    with pytest.raises(AssertionError, match="stuck did not start, or did not end, within 3600 virtual seconds"):
        async with mq.run(stuck):
            assert not at_the_start


async def test_an_application_that_does_not_end_does_not_hide_the_failure_of_the_test(mq: QueueManagerKit) -> None:
    stuck = App("embedded::memory:?qmgr=QM1", name="stuck")
    stuck.on_stop(anyio.sleep_forever)

    async def steps() -> None:
        async with mq.run(stuck):
            raise LookupError("the failure of the test")

    with pytest.raises(AssertionError, match="stuck did not start, or did not end") as raised:
        await steps()

    assert "the failure of the test" == str(raised.value.__cause__)


async def test_a_failed_consumer_of_an_included_application_fails_the_test(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr(WorkerEvents, "delivered", fails)
    both, archive = App(name="both"), App(name="archive")
    both.include_app(archive)
    (qm2 := mq.beside()).define("IN")

    @archive.listener("IN", backout=Backout(threshold=3, queue="SYSTEM.DEFAULT.LOCAL.QUEUE"))
    async def keep(_: bytes) -> None:
        raise AssertionError("no message reaches the handler")

    async def steps() -> None:
        async with mq.run(both, others={"archive": qm2}):
            await qm2.put("IN", b"")
            await anyio.sleep(1)

    with pytest.raises(AssertionError, match=r"worker 0 of listener .*keep ended although nothing stopped it"):
        await steps()


async def test_a_queue_manager_that_is_given_up_fails_the_test(mq: QueueManagerKit) -> None:
    both, archive = App(name="both"), App(name="archive")
    both.include_app(archive)
    qm2 = mq.beside()
    for kit in (mq, qm2):
        kit.define("IN")

    @both.listener("IN", backout=Backout(threshold=3, queue="SYSTEM.DEFAULT.LOCAL.QUEUE"))
    @archive.listener("IN", backout=Backout(threshold=3, queue="SYSTEM.DEFAULT.LOCAL.QUEUE"))
    async def keep(_: bytes) -> None: ...

    async def steps() -> None:
        async with mq.run(both, others={"archive": qm2}) as running:
            await running.wait_ready()
            qm2.faults.add(Fault(verb="MQCONNX", reason=Reason.NOT_AUTHORIZED, times=FOREVER))
            qm2.faults.break_connections()
            await anyio.sleep(60)

    with pytest.raises(AssertionError, match="The queue manager archive is given up"):
        await steps()


def test_an_application_cannot_run_outside_virtual_time(mq: QueueManagerKit, queues: None) -> None:
    async def elsewhere() -> None:
        async with mq.run(app):
            pass

    with pytest.raises(RuntimeError, match=r"needs a test that runs in virtual time"):
        anyio.run(elsewhere)


async def test_an_outage_of_a_minute_is_survived(mq: QueueManagerKit, queues: None) -> None:
    async with mq.run(app):
        with mq.faults.outage():
            await mq.put("FLIGHTS.IN", GOOD)
            await anyio.sleep(60)
        [booked] = await mq.drain("FLIGHTS.BOOKED")

    assert booked.json() == msgspec.json.decode(GOOD)
    [reconnected] = mq.told(Reconnected)
    assert 31 < reconnected.downtime_ms / 1_000 < 100  # 1, 2, 4, 8, 16 and 25 s, each with its jitter
