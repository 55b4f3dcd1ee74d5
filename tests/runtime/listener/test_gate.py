"""Listeners with a rate limit or a circuit breaker: the pace of their messages, and the pause while their handler fails."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from mqflow import App, Backout, Batch, CircuitBreaker, ConfigurationError, Pace, RateLimit, Reject
from mqflow.events import BreakerHalfOpened, Delivered, Event, ListenerPaused, ListenerResumed
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, MessageFlag, OpenOption, PutOption
from mqflow.policy.poison.disposition import Completed, Failed
from mqflow.runtime.gate import Gate, Pass
from mqflow.testing.faults import FOREVER, Fault
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import GetOptions
from tests.conformance.under_test import ManualClock
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

NO_PAUSE = Backout(threshold=0, pace=Pace(first_s=0))
queues = defining("BOQ")


class Service:
    """A service that a handler calls; `down` makes every call fail."""

    def __init__(self) -> None:
        self.down = True
        self.calls: list[float] = []
        self.done: Counter[str] = Counter()

    async def __call__(self, body: str) -> None:
        self.calls.append(round(anyio.current_time(), 3))
        await anyio.sleep(0.001)
        if self.down:
            raise ConnectionError("the service is down")
        self.done[body] += 1

    def since(self, moment: float) -> list[float]:
        return [round(call - moment, 1) for call in self.calls if call >= moment]


async def put(mq: QueueManagerKit, count: int) -> list[str]:
    bodies = [f"message {number}" for number in range(count)]
    for body in bodies:
        await mq.put("IN", body)
    return bodies


def states(mq: QueueManagerKit) -> list[str]:
    return [
        type(event).__name__ for event in mq.events if isinstance(event, ListenerPaused | BreakerHalfOpened | ListenerResumed)
    ]


@pytest.mark.parametrize("options", [{"concurrency": 3}, {"concurrency": 3, "unit_of_work": 5}], ids=["alone", "in units"])
async def test_all_workers_together_get_no_more_messages_than_the_rate_limit_says(
    mq: QueueManagerKit, options: dict[str, Any]
) -> None:
    app, service = App(), Service()
    service.down = False
    app.listener("IN", rate_limit=RateLimit(10, burst=2), **options)(service.__call__)

    async with mq.run(app):
        await anyio.sleep(200)  # the workers are idle, and hold nothing in reserve
        began = anyio.current_time()
        bodies = await put(mq, 12)
        await anyio.sleep(5)

    assert [0.0, 0.0, *(round(number / 10, 1) for number in range(1, 11))] == service.since(began)
    assert dict.fromkeys(bodies, 1) == service.done


async def test_a_batch_is_at_most_a_burst(mq: QueueManagerKit) -> None:
    app, sizes = App(), []

    @app.listener("IN", batch=Batch(max=100, wait_ms=0), rate_limit=RateLimit(4, burst=4))
    async def handle(bodies: list[str]) -> None:
        sizes.append((len(bodies), round(anyio.current_time() - began, 1)))

    await put(mq, 10)
    began = anyio.current_time()
    await run_for(mq, 10, app)

    assert [4, 10] == [sizes[0][0], sum(size for size, _ in sizes)]
    assert max(size for size, _ in sizes) <= 4
    assert 1.5 == sizes[-1][1]


async def test_each_message_of_a_group_counts_for_the_rate_limit(mq: QueueManagerKit) -> None:
    app, groups = App(), list[tuple[int, float]]()

    @app.listener("IN", groups=True, rate_limit=RateLimit(1))
    async def handle(bodies: list[str]) -> None:
        groups.append((len(bodies), round(anyio.current_time() - began)))

    for group in (b"a", b"b"):
        for number in (1, 2, 3):
            flags = MessageFlag.LAST_MSG_IN_GROUP if number == 3 else MessageFlag.MSG_IN_GROUP
            descriptor = MessageDescriptor(group_id=group * 24, sequence_number=number, message_flags=int(flags))
            mq.queue_manager.connect().put1("IN", descriptor, b"one of three", PutOption.NO_SYNCPOINT)
    began = anyio.current_time()
    await run_for(mq, 10, app)

    assert [(3, 0), (3, 3)] == groups


async def test_failures_in_a_row_open_the_breaker_and_one_message_at_a_time_tries_the_service(mq: QueueManagerKit) -> None:
    app, service = App(), Service()
    app.listener("IN", concurrency=2, backout=NO_PAUSE, breaker=CircuitBreaker(failures=4, open_s=30))(service.__call__)
    bodies = await put(mq, 6)

    async with mq.run(app):
        await anyio.sleep(70)
        opened = len([call for call in service.calls if call - service.calls[0] < 1])
        tried = [round(call - service.calls[0]) for call in service.calls[opened:]]
        service.down = False
        await anyio.sleep(40)
        again = len(service.calls)

    assert opened in {4, 5}  # the other worker may handle a message when the fourth fails
    assert [30, 60] == tried
    assert dict.fromkeys(bodies, 1) == service.done
    assert opened + 2 + len(bodies) == again
    failed = ["BreakerHalfOpened", "ListenerPaused"]
    assert ["ListenerPaused", *failed, *failed, "BreakerHalfOpened", "ListenerResumed"] == states(mq)
    [first, second, _] = mq.told(ListenerPaused)
    assert "4 in a row have failed, the last with ConnectionError: the service is down" in first.why
    assert (30.0, True) == (first.delay_s, "the message that was let through has failed" in second.why)


async def test_a_unit_of_work_of_several_messages_is_no_trial(mq: QueueManagerKit) -> None:
    """If the trial fails, its unit is backed out, and each message in it counts."""
    app, service = App(), Service()
    rules = CircuitBreaker(failures=1, open_s=30)
    app.listener("IN", unit_of_work=5, backout=NO_PAUSE, breaker=rules)(service.__call__)

    async with mq.run(app):
        await mq.put("IN", "first")
        await anyio.sleep(1)
        for number in range(3):
            await mq.put("IN", f"urgent {number}", priority=9)
        await anyio.sleep(40)

    assert [1, 0, 0, 1] == [message.backout_count for message in mq.browse("IN")]


async def test_no_message_is_counted_while_the_breaker_is_open(mq: QueueManagerKit) -> None:
    app, service = App(), Service()
    app.listener("IN", concurrency=3, backout=NO_PAUSE, breaker=CircuitBreaker(failures=2, open_s=3_600))(service.__call__)
    bodies = await put(mq, 9)

    async with mq.run(app):
        await anyio.sleep(600)
        failed = len(service.calls)

    counts = sorted(message.backout_count for message in mq.browse("IN"))
    assert len(bodies) == len(counts)
    assert failed == sum(counts) <= 4
    assert failed == len(mq.told(Delivered))


async def test_a_worker_that_waited_for_a_message_when_the_breaker_opened_keeps_its_message_until_the_trial(
    mq: QueueManagerKit,
) -> None:
    app, service = App(), Service()
    gate = anyio.Event()

    async def slow(body: str) -> None:
        if body == "first":
            await gate.wait()
        await service(body)

    app.listener("IN", concurrency=2, backout=NO_PAUSE, breaker=CircuitBreaker(failures=1, open_s=30))(slow)
    async with mq.run(app):
        await mq.put("IN", "first")
        await anyio.sleep(1)  # one worker handles it, and the other waits for a message
        gate.set()
        await anyio.sleep(1)
        service.down = False
        await mq.put("IN", "second")
        await anyio.sleep(10)
        before = len(service.calls)
        await anyio.sleep(60)

    assert (1, {"first": 1, "second": 1}) == (before, service.done)
    [trial] = mq.told(BreakerHalfOpened)
    assert [0, 1] == [each.backout_count for each in mq.told(Delivered) if each.message_id == trial.message_id]


@pytest.mark.parametrize("counts", [0, 1], ids=["given back", "backed out"])
async def test_a_message_that_a_worker_keeps_until_the_trial_loses_no_attempt_with_an_application_that_is_cut_off(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, counts: int
) -> None:
    app, service = App(), Service()
    rules = Backout(threshold=1, queue="BOQ")
    app.listener("IN", concurrency=2, backout=rules, breaker=CircuitBreaker(failures=1, open_s=30))(service.__call__)
    if counts:  # then the notes tell the next process about the backout
        monkeypatch.setenv("MQFLOW_NOTES_FILE", str(tmp_path / "notes"))
        mq.faults.add(Fault(verb="MQBACK", times=FOREVER))

    async with mq.run(app) as running:
        await anyio.sleep(1)  # both workers wait for a message
        await mq.put("IN", "first")
        await anyio.sleep(1)
        await mq.put("IN", "second")
        await anyio.sleep(1)
        running.cancel()
    mq.faults.clear()
    service.down = False
    await run_for(mq, 60, app)

    assert (["first"], {"second": 1}) == ([message.text() for message in mq.browse("BOQ")], service.done)
    assert [0, counts] == [each.backout_count for each in mq.told(Delivered)]


@pytest.mark.parametrize("order", ["stop", "pause"])
async def test_a_message_that_a_worker_keeps_until_the_trial_is_given_back_when_its_listener_stops_or_is_paused(
    mq: QueueManagerKit, order: str
) -> None:
    app, service = App(), Service()
    rules = Backout(threshold=2, queue="BOQ", pace=Pace(first_s=0))
    app.listener("IN", concurrency=2, backout=rules, breaker=CircuitBreaker(failures=1, open_s=3_600), name="book")(
        service.__call__
    )

    async with mq.run(app) as running:
        await anyio.sleep(1)  # both workers wait for a message
        await mq.put("IN", "first")
        await anyio.sleep(1)
        await mq.put("IN", "second")
        await anyio.sleep(1)
        if order == "pause":
            running.order("book", held=True)
            await anyio.sleep(1)
            assert 2 == len(mq.browse("IN"))

    assert 1 == len(service.calls)
    assert [("first", 1), ("second", 0)] == sorted((message.text(), message.backout_count) for message in mq.browse("IN"))
    assert not mq.told(BreakerHalfOpened)


async def test_messages_that_are_themselves_at_fault_leave_the_breaker_closed(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN", backout=Backout(threshold=3, queue="BOQ"), breaker=CircuitBreaker(failures=2))
    async def handle(number: int) -> None:
        raise Reject("never")

    async with mq.run(app):
        for body in ("1", "no number", "2", "3"):
            await mq.put("IN", body)
        await mq.drain("BOQ", at_least=4, within_s=5)

    assert [] == states(mq)


async def test_a_trial_that_is_poison_is_moved_and_the_next_message_is_the_trial(mq: QueueManagerKit) -> None:
    """The trial is found poison before its handling, so no handler says anything about the service."""
    app, service = App(), Service()
    rules = Backout(threshold=2, queue="BOQ", pace=Pace(first_s=0))
    app.listener("IN", backout=rules, breaker=CircuitBreaker(failures=1, open_s=30))(service.__call__)
    connection = mq.queue_manager.connect()
    handle = connection.open("IN", OpenOption.INPUT_SHARED)

    async with mq.run(app):
        await mq.put("IN", "good")
        await anyio.sleep(1)
        service.down = False
        await mq.put("IN", "poison", priority=9)
        for _ in range(2):  # another program cannot handle it either
            connection.get(handle, GetOptions(options=GetOption.SYNCPOINT))
            connection.backout()
        await anyio.sleep(60)
    connection.disconnect()

    assert {"good": 1} == service.done
    assert ["poison"] == [each.text() for each in mq.browse("BOQ")]
    assert ["ListenerPaused", "BreakerHalfOpened", "BreakerHalfOpened", "ListenerResumed"] == states(mq)


async def test_only_the_handling_of_the_trial_ends_the_trial() -> None:
    """Units that began before it, also the trial before it, end while it is under way."""
    breaker, told, clock = CircuitBreaker(failures=1, open_s=30), list[Event](), ManualClock()
    gate = Gate(None, breaker, queue="IN", listener="handle", clock=clock, notify=told.append)
    down, done = Failed("ConnectionError", "down"), Completed()
    before, first = await _passed(gate, b"0"), await _passed(gate, b"1")
    gate.ended(first, down)
    clock.advance(30)
    trial = await _passed(gate, b"2")
    gate.ended(before, done)
    assert not await _lets_in(gate)
    gate.ended(trial, done)
    assert await _lets_in(gate)

    gate.ended(before, down)
    clock.advance(30)
    await _passed(gate, b"3")
    for unit in (before, first, trial):
        gate.ended(unit, None)

    assert not await _lets_in(gate)
    changes = [ListenerPaused, BreakerHalfOpened, ListenerResumed, ListenerPaused, BreakerHalfOpened]
    assert changes == [type(each) for each in told]


async def _passed(gate: Gate, message_id: bytes) -> Pass:
    permission = await gate.passed(1, message_id)
    assert permission is not None
    return permission


async def _lets_in(gate: Gate) -> bool:
    """Return whether another worker may get now."""
    with anyio.move_on_after(0.01):
        async with gate.turn(1):
            return True
    return False


async def test_a_stop_ends_the_pause_of_a_gate(mq: QueueManagerKit) -> None:
    app, service = App(), Service()
    app.listener("IN", concurrency=2, backout=NO_PAUSE, breaker=CircuitBreaker(failures=1, open_s=3_600))(service.__call__)
    await put(mq, 4)

    async with mq.run(app, drain_s=60):
        await anyio.sleep(1)
        stopped = anyio.current_time()

    assert anyio.current_time() - stopped < 1
    assert 4 == len(mq.browse("IN"))


@pytest.mark.parametrize(
    ("options", "said"),
    [({"rate_limit": 10}, "rate_limit=10: it must be a RateLimit"), ({"breaker": True}, "it must be a CircuitBreaker")],
)
def test_an_option_of_another_type_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        App().listener("IN", **options)(Service().__call__)
