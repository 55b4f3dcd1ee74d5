"""A pause holds back the message that failed and no other message, and a listener without a destination does not spin."""

from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from mqflow import App, Backout, Pace, RateLimit
from mqflow.events import Event, ListenerPaused, ListenerResumed, ReadinessChanged
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

PAUSE_S = 30.0
queues = defining("BOQ", bothresh=2, boqname="BOQ")


async def test_the_other_messages_of_a_unit_do_not_wait_for_the_pause_of_the_failed_message(mq: QueueManagerKit) -> None:
    app, handled_at = App(), dict[str, float]()

    @app.listener("IN", unit_of_work=4, backout=Backout(pace=Pace(first_s=PAUSE_S, jitter=0)))
    async def handle(body: str) -> None:
        if body == "bad":
            raise ValueError("always")
        handled_at[body] = mq.clock.monotonic()

    for body in ("0", "1", "2", "bad"):
        await mq.put("IN", body)
    async with mq.run(app):
        began = mq.clock.monotonic()
        await mq.drain("BOQ", within_s=10 * PAUSE_S)

    assert {"0", "1", "2"} == set(handled_at)
    assert max(handled_at.values()) < began + PAUSE_S


async def test_a_listener_whose_poison_messages_no_queue_takes_does_not_spin(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    paused_at: list[float] = []

    def end_a_spin(event: Event) -> None:
        if isinstance(event, ListenerPaused):
            paused_at.append(mq.clock.monotonic())
            if len(paused_at) == 5:
                mq.mqsc("ALTER QLOCAL(BOQ) PUT(ENABLED)")

    app = App(hooks=[end_a_spin])

    @app.listener("IN", concurrency=3, backout=Backout(threshold=1))
    async def handle(body: str) -> None:
        raise ValueError("always")

    await mq.put("IN", "bad")
    async with mq.run(app):
        await mq.drain("BOQ", within_s=3_600)

    assert 5 == len(set(paused_at))


@pytest.mark.parametrize(
    "options",
    [{}, {"unit_of_work": 5}, {"concurrency": 2}, {"rate_limit": RateLimit(100)}, {"strict_order": True}],
    ids=["plain", "in units", "two workers", "through a gate", "in strict order"],
)
async def test_a_listener_is_ready_again_when_its_queue_allows_gets_even_if_there_is_no_message(
    mq: QueueManagerKit, options: dict[str, Any]
) -> None:
    app, bodies = App(), list[str]()

    @app.listener("IN", **options)
    async def handle(body: str) -> None:
        bodies.append(body)

    async with mq.run(app):
        mq.mqsc("ALTER QLOCAL(IN) GET(DISABLED)")
        await anyio.sleep(300)
        refused = states(mq)
        mq.mqsc("ALTER QLOCAL(IN) GET(ENABLED)")
        await anyio.sleep(61)  # the longest pause is a minute
        allowed = states(mq)[len(refused) :]
        await mq.put("IN", "order")
        await anyio.sleep(1)
        handled = states(mq)[len(refused) + len(allowed) :]
        calls = len(mq.faults.calls)
        await anyio.sleep(100)
        idle_calls = len(mq.faults.calls) - calls

    assert ["ready", "not ready"] == [state for state in refused if state != "paused"]
    assert (["resumed", "ready"], []) == (allowed, handled)
    assert ["order"] == bodies
    assert idle_calls <= 4  # each worker waits in its get


def states(mq: QueueManagerKit) -> list[str]:
    said = {"ListenerPaused": "paused", "ListenerResumed": "resumed"}
    return [
        ("ready" if event.ready else "not ready") if isinstance(event, ReadinessChanged) else said[type(event).__name__]
        for event in mq.events
        if isinstance(event, ReadinessChanged | ListenerPaused | ListenerResumed)
    ]


async def test_a_refused_get_is_tried_again_after_one_pause(mq: QueueManagerKit) -> None:
    app, handled = App(), list[str]()

    @app.listener("IN")
    async def handle(body: str) -> None:
        handled.append(body)

    refused, end_a_spin = (Fault(verb="MQGET", object_name="IN", reason=Reason.GET_INHIBITED, times=times) for times in (3, 99))
    mq.faults.add(refused, replace(end_a_spin, nth=50))
    async with mq.run(app):
        await anyio.sleep(20)
        await mq.put("IN", "order")
        await anyio.sleep(1)

    assert ([Reason.GET_INHIBITED] * 3, ["order"]) == ([event.reason for event in mq.told(ListenerPaused)], handled)


async def test_each_refusal_before_a_success_makes_the_pause_longer_up_to_a_minute(mq: QueueManagerKit) -> None:
    app = App()

    @app.listener("IN", name="book")
    async def handle(body: str) -> None: ...

    pauses: list[list[ListenerPaused]] = []
    async with mq.run(app):
        for _ in range(2):
            mq.mqsc("ALTER QLOCAL(IN) GET(DISABLED)")
            await anyio.sleep(200)
            mq.mqsc("ALTER QLOCAL(IN) GET(ENABLED)")
            await mq.put("IN", "order")
            await anyio.sleep(61)
            pauses.append([event for event in mq.told(ListenerPaused) if all(event not in before for before in pauses)])

    for paused in pauses:
        assert {("IN", "book", 2016)} == {(event.queue, event.listener, event.reason) for event in paused}
        assert all(event.why.startswith("MQGET on IN (QM1) failed: MQRC_GET_INHIBITED (2016).") for event in paused)
        assert [1, 2, 4, 8, 16, 32, 60] == [longest_s(event.delay_s) for event in paused][:7]


def longest_s(delay_s: float) -> int:
    """Return the pause without its random part, which makes a pause up to a quarter shorter."""
    return next(each for each in (1, 2, 4, 8, 16, 32, 60) if 0.75 * each <= delay_s <= each)
