"""A pause holds back the message that failed and no other message, and a listener without a destination does not spin."""

import pytest

from mqflow import App, Backout, Pace
from mqflow.events import Event, ListenerPaused
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

PAUSE_S = 30.0


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("BOQ")
    mq.define("IN", bothresh=2, boqname="BOQ")


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
