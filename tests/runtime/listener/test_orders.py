"""The orders of an operator to a running listener: pause, resume, another number of workers. Each lets open units finish."""

from typing import Any

import anyio
import pytest

from mqflow import App, CircuitBreaker, RateLimit
from mqflow.events import ConnectionTried, Event, ListenerPaused, Reconnected
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.health.records import Doing, ListenerStatus
from mqflow.testing.faults import CONNECT, Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")
queues = defining(bothresh=3)


async def until(bodies: list[str], number: int) -> None:
    """Wait until the list has this number of bodies, or a minute is over."""
    with anyio.move_on_after(60):
        while len(bodies) < number:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(0.1)
    assert number <= len(bodies)


class Gate:
    """An application whose handlers wait until the test opens the gate."""

    def __init__(self, **options: Any) -> None:
        self.app = App()
        self.began, self.ended = list[str](), list[str]()
        self.open = anyio.Event()

        @self.app.listener("IN", **options)
        async def handle(body: str) -> None:
            self.began.append(body)
            await self.open.wait()
            self.ended.append(body)

    def order(self, *, held: bool | None = None, concurrency: int | None = None) -> None:
        assert self.app.current is not None
        self.app.current.order("IN", held=held, concurrency=concurrency)

    def status(self) -> ListenerStatus:
        assert self.app.current is not None
        return self.app.current.listeners()[0]

    def doing(self) -> list[Doing]:
        return [worker.doing for worker in self.status().workers]

    async def until_ended(self, number: int) -> None:
        await until(self.ended, number)

    async def until_began(self, number: int) -> None:
        await until(self.began, number)


async def test_a_paused_listener_finishes_its_message_and_gets_no_other(mq: QueueManagerKit) -> None:
    gate = Gate()
    async with mq.run(gate.app):
        await mq.put("IN", "first")
        await gate.until_began(1)
        gate.order(held=True)
        await mq.put("IN", "second")

        gate.open.set()
        await anyio.sleep(300)

        assert (["first"], ["first"]) == (gate.began, gate.ended)
        assert 1 == mq.depth("IN")
        assert [Doing.PAUSED] == gate.doing()
        assert gate.status().held
        gate.order(held=False)
        await gate.until_ended(2)
        assert ["first", "second"] == gate.ended
        assert not gate.status().held


async def test_a_listener_that_waits_in_its_get_is_paused_too(mq: QueueManagerKit) -> None:
    gate = Gate(concurrency=2)
    async with mq.run(gate.app):
        await anyio.sleep(1)
        assert [Doing.IDLE] * 2 == gate.doing()

        gate.order(held=True)
        await anyio.sleep(1)
        await mq.put("IN", "a")
        await anyio.sleep(300)

        assert [] == gate.began
        assert [Doing.PAUSED] * 2 == gate.doing()


LIMITS = [RateLimit(1, per_s=1_000), RateLimit(10)]


@pytest.mark.parametrize("limit", LIMITS, ids=["waits for its turn", "waits in its get"])
async def test_a_listener_with_a_rate_limit_is_paused_and_resumed(mq: QueueManagerKit, limit: RateLimit) -> None:
    gate = Gate(rate_limit=limit, breaker=CircuitBreaker(), concurrency=2)
    gate.open.set()
    async with mq.run(gate.app):
        await mq.put("IN", "first")
        await gate.until_ended(1)
        await anyio.sleep(1)
        gate.order(held=True)
        await anyio.sleep(1)
        doing = gate.doing()
        await mq.put("IN", "second")
        await anyio.sleep(2_000)
        before = list(gate.ended)
        gate.order(held=False, concurrency=1)
        await gate.until_ended(2)
        await anyio.sleep(10)

        assert ([Doing.PAUSED] * 2, ["first"], ["first", "second"]) == (doing, before, gate.ended)
        assert 1 == len(gate.status().workers)


async def test_a_pause_of_an_operator_changes_no_readiness(mq: QueueManagerKit) -> None:
    gate = Gate()
    async with mq.run(gate.app):
        gate.order(held=True)
        await anyio.sleep(1)

        assert gate.app.current is not None
        assert gate.app.current.ready


async def test_more_workers_handle_more_messages_at_once(mq: QueueManagerKit) -> None:
    gate = Gate(concurrency=1)
    async with mq.run(gate.app):
        for body in "abc":
            await mq.put("IN", body)
        await gate.until_began(1)
        await anyio.sleep(60)
        assert 1 == len(gate.began)

        gate.order(concurrency=3)
        await gate.until_began(3)

        assert [Doing.HANDLING] * 3 == gate.doing()
        gate.open.set()


async def test_fewer_workers_finish_their_messages_first(mq: QueueManagerKit) -> None:
    gate = Gate(concurrency=3)
    async with mq.run(gate.app):
        for body in "abc":
            await mq.put("IN", body)
        await gate.until_began(3)
        gate.order(concurrency=1)
        await anyio.sleep(10)
        assert 3 == len(gate.status().workers)

        gate.open.set()
        await anyio.sleep(10)

        assert {"a", "b", "c"} == set(gate.ended)
        assert 1 == len(gate.status().workers)
        assert gate.app.current is not None
        assert gate.app.current.ready
        await mq.put("IN", "d")
        await gate.until_ended(4)
        assert "d" in gate.ended


@pytest.mark.parametrize("source", [{"queue": "IN"}, {"topic": "prices/#"}], ids=["queue", "topic"])
async def test_an_outage_ends_although_a_paused_listener_does_not_connect_again(
    mq: QueueManagerKit, source: dict[str, Any]
) -> None:
    mq.define("OTHER")
    app = App()

    @app.listener(**source, name="paused")
    @app.listener("OTHER")
    async def handle(body: str) -> None: ...

    async with mq.run(app) as running:
        await anyio.sleep(1)
        mq.faults.break_connections()
        running.order("paused", held=True)
        await anyio.sleep(60)

        [back] = mq.told(Reconnected)
        assert back.downtime_ms < 5_000


async def test_a_new_worker_whose_connection_is_refused_pauses_and_tries_again(mq: QueueManagerKit) -> None:
    gate = Gate()
    async with mq.run(gate.app):
        mq.faults.add(Fault(verb=CONNECT, reason=Reason.NOT_AUTHORIZED, times=3))
        gate.order(concurrency=2)
        await anyio.sleep(60)
        for body in "ab":
            await mq.put("IN", body)
        await gate.until_began(2)
        assert [Doing.HANDLING] * 2 == gate.doing()
        gate.open.set()

    paused = [(event.reason, round(event.delay_s, 3)) for event in mq.told(ListenerPaused)]
    assert [Reason.NOT_AUTHORIZED] * 3 == [reason for reason, _ in paused]
    assert 0 < paused[0][1] <= 1 < paused[2][1] <= 4


async def test_a_number_of_workers_can_go_down_and_up_while_a_handler_runs(mq: QueueManagerKit) -> None:
    gate = Gate(concurrency=2)
    async with mq.run(gate.app):
        for body in "ab":
            await mq.put("IN", body)
        await gate.until_began(2)

        gate.order(concurrency=1)
        gate.order(concurrency=2)
        gate.open.set()
        await anyio.sleep(10)

        assert [0, 1] == [worker.number for worker in gate.status().workers]
        assert [Doing.IDLE] * 2 == gate.doing()


async def test_a_paused_listener_stops_with_its_application(mq: QueueManagerKit) -> None:
    gate = Gate()
    async with mq.run(gate.app):
        gate.order(held=True)
        await anyio.sleep(1)

    assert gate.app.current is None


async def test_an_application_starts_with_a_listener_that_is_paused_already(mq: QueueManagerKit) -> None:
    gate = Gate()
    gate.open.set()
    gate.app.on_start(lambda: gate.order(held=True))
    async with mq.run(gate.app):
        await mq.put("IN", "a")
        await anyio.sleep(300)
        assert gate.app.current is not None
        assert (True, []) == (gate.app.current.ready, gate.began)

        gate.order(held=False)
        await gate.until_ended(1)


async def test_an_order_during_the_start_of_a_listener_starts_the_further_workers(mq: QueueManagerKit) -> None:
    gate = Gate()

    def order(event: Event) -> None:
        if isinstance(event, ConnectionTried) and gate.status().concurrency == 1:
            gate.order(concurrency=3)

    gate.app.hooks.append(lambda event: order(event))  # noqa: PLW0108 - a hook is called by keyword too
    async with mq.run(gate.app):
        await anyio.sleep(1)

        assert [Doing.IDLE] * 3 == gate.doing()


@pytest.mark.parametrize(("strict_order", "wanted"), [(False, 0), (True, 2)])
async def test_an_impossible_number_of_workers_is_refused(mq: QueueManagerKit, *, strict_order: bool, wanted: int) -> None:
    gate = Gate(strict_order=strict_order)
    async with mq.run(gate.app):
        with pytest.raises(ValueError, match="worker"):
            gate.order(concurrency=wanted)

        assert 1 == gate.status().concurrency


async def test_an_order_to_an_unknown_listener_names_the_listeners(mq: QueueManagerKit) -> None:
    gate = Gate()
    async with mq.run(gate.app):
        assert gate.app.current is not None
        with pytest.raises(LookupError, match=r"'INN'. The listeners are: handle"):
            gate.app.current.order("INN", held=True)


async def test_a_watched_worker_says_how_long_it_has_waited(mq: QueueManagerKit) -> None:
    gate = Gate()
    gate.app.on_start(lambda: gate.app.current.watch() if gate.app.current else None)
    async with mq.run(gate.app):
        await anyio.sleep(1_000)
        [idle] = gate.status().workers
        await mq.put("IN", "a")
        await gate.until_began(1)
        began = mq.clock.monotonic()
        await anyio.sleep(100)
        [busy] = gate.status().workers

        assert idle.since is not None
        assert busy.since is not None
        assert (Doing.IDLE, 5.0) == (idle.doing, idle.wait_s)
        assert began - 6 <= idle.since
        assert began - 1 <= busy.since <= began
        assert "await self.open.wait()" in busy.stack
        assert busy.at.startswith("listener/test_orders.py:")
        gate.open.set()
