"""The state of one process, and the orders to it."""

import os
import threading
from typing import Any

import anyio
import pytest

from mqflow import App, CircuitBreaker, RateLimit
from mqflow.cli.watching import control
from mqflow.cli.watching.control import Order, OrderError, ProcessSource
from mqflow.cli.watching.counts import EventCounts
from mqflow.policy.health.records import Doing, ProcessStatus
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.world import World

URL = "embedded:data?qmgr=QM1"
both_loops = pytest.mark.mq_backend("asyncio", "trio")


def listening(*, counts: EventCounts | None = None, first: tuple[Order, ...] = ()) -> tuple[App, ProcessSource]:
    app = App(name="orders", hooks=[] if counts is None else [counts])

    @app.listener("IN", name="booking")
    async def handle(body: str) -> None:
        return

    source = ProcessSource(app, URL, number=2, counts=None if counts is None else counts.counts, first=first)
    app.on_start(source.started)
    return app, source


def process_of(source: ProcessSource) -> ProcessStatus:
    [process] = source.status().processes
    return process


@both_loops
async def test_a_running_application_shows_its_listeners_and_counts(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app, source = listening(counts=EventCounts())
    async with mq.run(app):
        await mq.put("IN", "a")
        await anyio.sleep(1)

        found = process_of(source)

        assert (os.getpid(), 2, True) == (found.process, found.number, found.ready)
        assert ["booking"] == [listener.name for listener in found.listeners]
        assert ((("IN",), 1.0),) == found.counts["messages_delivered"]
        [worker] = found.listeners[0].workers
        assert worker.since is not None


@both_loops
async def test_an_application_that_does_not_count_notes_nothing_for_each_message(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app, source = listening()
    async with mq.run(app):
        await anyio.sleep(1)

        [worker] = process_of(source).listeners[0].workers
        assert (Doing.IDLE, None) == (worker.doing, worker.since)
        assert {} == process_of(source).counts


@both_loops
async def test_a_worker_process_begins_with_the_orders_in_force(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app, source = listening(first=(Order(listener="booking", held=True, concurrency=2),))
    async with mq.run(app):
        await anyio.sleep(1)

        [found] = process_of(source).listeners
        assert (True, [Doing.PAUSED] * 2) == (found.held, [worker.doing for worker in found.workers])


@both_loops
async def test_an_order_to_an_unknown_listener_is_refused(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app, source = listening()
    async with mq.run(app):
        with pytest.raises(OrderError, match="The listeners are: booking"):
            source.order(Order(listener="bokking", held=True))


def test_an_order_to_an_application_that_starts_is_refused() -> None:
    _, source = listening()

    with pytest.raises(OrderError, match="starts or stops"):
        source.order(Order(listener="booking", held=True))


@pytest.mark.anyio
async def test_a_blocked_event_loop_is_named_with_the_code_that_blocks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_LOOP_ANSWER_S", 0.01)
    _, source = listening()
    source.started()
    found: list[ProcessStatus] = []

    def look() -> None:
        found.extend((process_of(source), process_of(source)))

    def block_the_loop() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    block_the_loop()

    first, second = found
    assert "in block_the_loop" in first.blocked_at
    assert first.blocked_since is not None
    assert first.blocked_since == second.blocked_since
    assert (None, "") == (process_of(source).blocked_since, process_of(source).blocked_at)


@pytest.mark.anyio
async def test_only_the_first_look_at_a_blocked_event_loop_waits() -> None:
    waits, clock = list[float](), VirtualClock()

    class Waits(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            clock.advance(timeout or 0.0)
            return self.is_set()

    class Runner:
        event = Waits

    app = App("embedded::memory:?qmgr=QM1")
    source = ProcessSource(app, world=World(clock, runner=Runner()))  # type: ignore[arg-type]  # the part of a runner that is used
    source.started()

    look = threading.Thread(target=lambda: (source.status(), source.status()))
    look.start()
    look.join()  # the event loop is blocked meanwhile

    assert [1.0, 0.0] == waits


@both_loops
async def test_an_order_that_a_blocked_event_loop_does_not_take_is_not_carried_out_later(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_LOOP_ANSWER_S", 0.01)
    mq.define("IN")
    app, source = listening()
    refused: list[str] = []

    def pause() -> None:
        with pytest.raises(OrderError) as raised:
            source.order(Order(listener="booking", held=True))
        refused.append(str(raised.value))

    async with mq.run(app):
        thread = threading.Thread(target=pause)
        thread.start()
        thread.join()  # the event loop is blocked meanwhile
        await anyio.sleep(1)

        assert [
            "The event loop of the application is blocked, so it takes no order now. `mqflow status` shows where."
        ] == refused
        assert not process_of(source).listeners[0].held


@both_loops
async def test_the_handler_that_blocks_the_event_loop_is_marked_and_its_stack_begins_with_it(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_LOOP_ANSWER_S", 0.01)
    mq.define("IN")
    app, finish = App(name="orders"), anyio.Event()
    source = ProcessSource(app, URL)
    app.on_start(source.started)
    found: list[ProcessStatus] = []

    @app.listener("IN", name="booking", concurrency=2)
    async def handle(body: str) -> None:
        if body == "waits":
            await finish.wait()
            return
        thread = threading.Thread(target=lambda: found.append(process_of(source)))
        thread.start()
        thread.join()
        finish.set()

    async with mq.run(app):
        await mq.put("IN", "waits")
        await anyio.sleep(1)
        await mq.put("IN", "blocks")
        await anyio.sleep(1)

    [process] = found
    assert sorted([(Doing.HANDLING, False), (Doing.HANDLING, True)]) == sorted(
        (worker.doing, worker.is_running) for worker in process.listeners[0].workers
    )
    assert process.blocked_at.splitlines()[0].endswith(", in handle")


@pytest.mark.parametrize(
    ("options", "doing", "paused"),
    [
        ({"breaker": CircuitBreaker(failures=1, open_s=300.0)}, Doing.PAUSED, "the circuit breaker is open: 1 in a row have"),
        ({"rate_limit": RateLimit(1, per_s=300.0)}, Doing.IDLE, ""),
    ],
    ids=["circuit breaker", "rate limit"],
)
async def test_a_worker_that_waits_at_the_gate_has_no_unit_of_work(
    mq: QueueManagerKit, options: dict[str, Any], doing: Doing, paused: str
) -> None:
    mq.define("BOQ")
    mq.define("IN", BOTHRESH=5, BOQNAME="BOQ")
    app = App(name="orders")
    source = ProcessSource(app, URL)

    @app.listener("IN", name="booking", concurrency=2, **options)
    async def handle(body: str) -> None:
        if "breaker" in options:
            raise ValueError(body)

    async with mq.run(app) as running:
        running.watch()
        for _ in range(2):
            await mq.put("IN", "x")
        await anyio.sleep(100)
        [listener] = process_of(source).listeners

    assert ([doing] * 2, True) == ([worker.doing for worker in listener.workers], listener.paused.startswith(paused))
    assert bool(paused) is bool(listener.paused)
