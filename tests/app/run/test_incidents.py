"""A consumer that ends although nothing stopped it is an incident: reported, not ready, and started again after a pause."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import pairwise

import anyio
import pytest
import trio

from mqflow import App
from mqflow.events import ConsumerFailed, ListenerStarted, ReadinessChanged, Settled
from mqflow.mqi.errors import MQIError
from mqflow.policy.poison.disposition import Interrupted, Settlement
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.worker import Worker
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
ASYNCIO = pytest.mark.mq_backend("asyncio")
queues = defining("BOQ", "OTHER", bothresh=10, boqname="BOQ")


class Defect:
    """Makes a worker fail the first times that it has got a unit of work, outside of the handler."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, exception: BaseException, times: int) -> None:
        self.left = times
        real = WorkerEvents.delivered

        def delivered(events: WorkerEvents, deliveries: Sequence[Delivery]) -> None:
            real(events, deliveries)
            if self.left and deliveries[0].got.body == b"bad":
                self.left -= 1
                raise exception

        monkeypatch.setattr(WorkerEvents, "delivered", delivered)


def idle(queue: str = "IN") -> App:
    """Return an application that completes each message at once."""
    app = App()

    @app.listener(queue)
    async def handle(body: bytes) -> None: ...

    return app


@pytest.mark.parametrize("exception", [LookupError("a defect"), SystemExit(3)], ids=repr)
async def test_a_worker_that_fails_backs_its_unit_out_and_starts_again_after_growing_pauses(
    mq: QueueManagerKit, exception: BaseException, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Defect(monkeypatch, exception, times=3)
    app, seen = App(), list[bytes]()

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        seen.append(body)

    with caplog.at_level(logging.ERROR, "mqflow"):
        async with mq.run(app, incidents=True) as running:
            await running.wait_ready()
            await mq.put("IN", b"bad")
            await mq.put("IN", b"good")
            await anyio.sleep(0.1)
            assert [False] == [running.ready]
            await anyio.sleep(30)
            assert [True] == [running.ready]
            assert 3 == running.incidents

    failed = mq.told(ConsumerFailed)
    assert sorted([b"bad", b"good"]) == sorted(seen)
    assert [1, 2, 3] == [event.failures for event in failed]
    assert [True, True] == [2 * 0.75 <= later / earlier <= 2 / 0.75 for earlier, later in _pairs(failed)]
    assert {"worker 0 of listener handle"} == {event.consumer for event in failed}
    assert {"IN"} == {event.queue for event in failed}
    lost = [event.outcome for event in mq.told(Settled) if event.settlement is Settlement.BACKOUT]
    assert [Interrupted(f"the worker failed: {exception!r}")] * 3 == lost
    assert type(exception).__name__ in failed[0].error
    assert "in delivered\n    raise exception" in failed[0].traceback
    assert 3 == caplog.text.count("ended although nothing stopped it")
    assert "raise exception" in caplog.text
    assert [True, False, True] == [event.ready for event in mq.told(ReadinessChanged)][:3]


def _pairs(failed: Sequence[ConsumerFailed]) -> list[tuple[float, float]]:
    pauses = [event.restarts_in_s for event in failed]
    return list(pairwise(pauses))


async def test_a_worker_that_worked_for_a_minute_begins_again_with_the_shortest_pause(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = Defect(monkeypatch, LookupError("a defect"), times=2)

    async with mq.run(idle(), incidents=True):
        await mq.put("IN", b"bad")
        await anyio.sleep(120)
        defect.left = 1
        await mq.put("IN", b"bad")
        await anyio.sleep(5)

    assert [1, 2, 1] == [event.failures for event in mq.told(ConsumerFailed)]


async def test_the_other_workers_and_listeners_go_on_while_one_pauses(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    Defect(monkeypatch, LookupError("a defect"), times=1)
    app, seen = App(), list[bytes]()

    @app.listener("IN", concurrency=2)
    @app.listener("OTHER")
    async def handle(body: bytes) -> None:
        seen.append(body)

    async with mq.run(app, incidents=True):
        await mq.put("IN", b"bad")
        await anyio.sleep(0.01)
        await mq.put("IN", b"good")
        await mq.put("OTHER", b"other")
        await anyio.sleep(0.5)
        assert [b"bad", b"good", b"other"] == sorted(seen)


async def test_an_unknown_exception_at_the_start_ends_the_application(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(worker: Worker) -> None:
        raise LookupError("not at the start")

    monkeypatch.setattr(Worker, "open", fails)

    with pytest.raises(LookupError, match="not at the start"):
        await run_for(mq, 60, idle())

    assert [] == mq.told(ConsumerFailed)


async def test_a_queue_that_is_not_there_at_the_start_ends_the_application(mq: QueueManagerKit) -> None:
    with pytest.raises(MQIError, match="2085"):
        await run_for(mq, 60, idle("NOWHERE"))

    assert [] == mq.told(ConsumerFailed)


async def test_a_stop_ends_the_pause_of_a_worker_that_failed(mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch) -> None:
    Defect(monkeypatch, LookupError("a defect"), times=100)

    async with mq.run(idle(), incidents=True):
        await mq.put("IN", b"bad")
        await anyio.sleep(100)
        before = mq.clock.monotonic()
    assert mq.clock.monotonic() - before < 1
    assert [b"bad"] == [each.body for each in mq.browse("IN")]


@pytest.mark.mq_backend("trio")
async def test_a_listener_whose_task_group_a_handler_cancels_starts_again(mq: QueueManagerKit) -> None:
    app, seen = App(), list[bytes]()

    @app.listener("IN", concurrency=2)
    async def handle(body: bytes) -> None:
        seen.append(body)
        if seen == [b"bad"]:
            nursery = trio.lowlevel.current_task().parent_nursery
            assert nursery is not None
            nursery.cancel_scope.cancel()
            await trio.sleep(60)

    async with mq.run(app, incidents=True) as running:
        await running.wait_ready()
        await mq.put("IN", b"bad")
        await anyio.sleep(0.1)
        assert [False] == [running.ready]
        await anyio.sleep(5)
        assert [True] == [running.ready]
        await mq.put("IN", b"good")
        await anyio.sleep(1)

    assert [b"bad", b"bad", b"good"] == seen
    assert ["listener handle"] == [event.consumer for event in mq.told(ConsumerFailed)]
    assert 2 == len(mq.told(ListenerStarted))


@ASYNCIO
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_handler_that_cancels_every_task_but_the_main_one_ends_nothing(mq: QueueManagerKit, concurrency: int) -> None:
    app, seen = App(), list[bytes]()
    app.delay_processor()
    main = asyncio.current_task()

    @app.listener("IN", concurrency=concurrency)
    @app.listener("OTHER", concurrency=concurrency)
    async def handle(body: bytes) -> None:
        if body == b"bad" and not seen:
            seen.append(body)
            for task in asyncio.all_tasks() - {main}:
                task.cancel()
            await asyncio.sleep(60)
        seen.append(body)

    async with mq.run(app, incidents=True) as running:
        await running.wait_ready()
        await mq.put("IN", b"bad")
        await anyio.sleep(0.1)
        assert [False] == [running.ready]
        await anyio.sleep(10)
        assert [True] == [running.ready]
        for queue in ("IN", "OTHER"):
            for number in range(5):
                await mq.put(queue, str(number).encode())
        await anyio.sleep(5)

    assert [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4", b"bad", b"bad"] == sorted(seen)
    assert mq.told(ConsumerFailed)
    assert [] == mq.browse("IN")
