"""The authorities that a consumer of poison messages needs, and what happens to the messages without them.

IBM q032280, about the move of a poison message: "we must grant the user running the application put and passall authorities".
The user must also inquire the queue, and connect.
"""

import anyio
import pytest

from mqflow import App, Backout, Pace
from mqflow.events import DelayProcessorStopped, Delivered, Disposed, ListenerPaused, Warned
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Requeue, Return
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
CALM = Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0))
NOT_AUTHORIZED = int(Reason.NOT_AUTHORIZED)


@pytest.fixture(autouse=True)
def everything_that_is_needed(mq: QueueManagerKit) -> None:
    """Queues, with exactly the authorities that the consumer needs."""
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    mq.define("BOQ")
    mq.define("IN", bothresh=2, boqname="BOQ")
    allow(mq, "", "CONNECT,INQ")
    allow(mq, "IN", "GET,INQ")
    allow(mq, "BOQ", "PUT,PASSALL")
    allow(mq, DLQ, "PUT,PASSALL")


def allow(mq: QueueManagerKit, queue: str, words: str, how: str = "AUTHADD") -> None:
    what = f"PROFILE('{queue}') OBJTYPE(QUEUE)" if queue else "OBJTYPE(QMGR)"
    mq.mqsc(f"SET AUTHREC {what} PRINCIPAL('app') {how}({words})")


def take_away(mq: QueueManagerKit, queue: str, words: str) -> None:
    allow(mq, queue, words, "AUTHRMV")


def failing() -> App:
    app = App(name="failing")

    @app.listener("IN", backout=CALM)
    async def handle(body: bytes) -> None:
        raise ValueError("bad data")

    return app


async def run_on_a_poison_message(mq: QueueManagerKit, *, seconds: float = 20) -> None:
    await run_for(mq, seconds, failing(), b"poison", user="app")


def tried(mq: QueueManagerKit) -> list[tuple[type, int]]:
    return [(type(attempt.disposition), attempt.reason) for attempt in mq.told(Disposed)[0].attempts]


async def test_with_the_authorities_of_the_source_document_a_poison_message_is_moved(mq: QueueManagerKit) -> None:
    await run_on_a_poison_message(mq)

    assert [(Requeue, 0)] == tried(mq)
    assert (0, 1, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))


@pytest.mark.parametrize("missing", ["PUT", "PASSALL"])
async def test_without_put_or_passall_on_the_backout_queue_it_goes_to_the_dead_letter_queue(
    mq: QueueManagerKit, missing: str
) -> None:
    take_away(mq, "BOQ", missing)
    await run_on_a_poison_message(mq)

    assert [(Requeue, NOT_AUTHORIZED), (DeadLetter, 0)] == tried(mq)
    assert (0, 0, 1) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))
    refusal = mq.told(Disposed)[0].attempts[0].detail
    assert f"SET AUTHREC PROFILE('BOQ') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD({missing})" in refusal


@pytest.mark.parametrize("missing", ["PUT", "PASSALL"])
async def test_without_them_on_the_dead_letter_queue_either_it_stays_where_it_is_and_the_listener_rests(
    mq: QueueManagerKit, missing: str
) -> None:
    take_away(mq, "BOQ", missing)
    take_away(mq, DLQ, missing)
    await run_on_a_poison_message(mq)

    assert [(Requeue, NOT_AUTHORIZED), (DeadLetter, NOT_AUTHORIZED), (Return, 0)] == tried(mq)
    assert (1, 0, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))
    paused = mq.told(ListenerPaused)[0]
    assert NOT_AUTHORIZED == paused.reason
    assert f"User app lacks {missing} on queue {DLQ}" in paused.why


async def test_a_poison_message_is_moved_as_soon_as_the_missing_authority_is_granted(mq: QueueManagerKit) -> None:
    take_away(mq, "BOQ", "PASSALL")
    take_away(mq, DLQ, "PASSALL")
    async with mq.run(failing(), user="app"):
        await mq.put("IN", b"poison")
        await anyio.sleep(20)
        allow(mq, "BOQ", "PASSALL")
        [found] = await mq.drain("BOQ", within_s=120)

    assert b"poison" in found.data
    assert 0 == mq.depth("IN")


async def test_without_inquire_no_message_is_moved_and_the_listener_warns(mq: QueueManagerKit) -> None:
    """The user running the receiving application must have inquire access on the local queue."""
    take_away(mq, "IN", "INQ")
    await run_on_a_poison_message(mq)

    assert "User app lacks INQ on queue IN" in mq.told(Warned)[0].text
    assert "User app lacks INQ on queue IN" in mq.told(ListenerPaused)[0].why
    assert [] == mq.told(Disposed)
    assert 1 == len(mq.told(Delivered))
    assert (1, 0, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))


async def test_inquire_on_the_local_queue_is_enough_for_poison_handling(mq: QueueManagerKit) -> None:
    """IBM q032280 asks for no authority on the queue manager. Without it, the dead-letter queue is not known."""
    take_away(mq, "", "INQ")
    await run_on_a_poison_message(mq)

    assert [(Requeue, 0)] == tried(mq)
    assert 2 == len(mq.told(Delivered))
    assert "User app lacks INQ on the queue manager" in mq.told(Warned)[0].text


async def test_without_get_the_listener_does_not_start(mq: QueueManagerKit) -> None:
    take_away(mq, "IN", "GET")

    with pytest.raises(NotAuthorizedError, match=r"MQOPEN on IN .* User app lacks GET on queue IN"):
        await run_on_a_poison_message(mq)


async def test_without_connect_the_application_does_not_start(mq: QueueManagerKit) -> None:
    take_away(mq, "", "CONNECT")

    with pytest.raises(NotAuthorizedError, match=r"MQCONNX .* User app lacks CONNECT"):
        await run_on_a_poison_message(mq)


async def test_to_delay_a_message_is_checked_against_its_target_when_it_is_sent(mq: QueueManagerKit) -> None:
    """JMS 2.0 delivery delay: "If the application is not authorized, then the send fails"."""
    mq.define("LATER")
    async with mq.run(app := App(name="sending"), user="app"):
        with pytest.raises(NotAuthorizedError, match="User app lacks PUT on queue LATER"):
            await app.put("LATER", b"x", delay=30)
        allow(mq, "LATER", "PUT")
        await app.put("LATER", b"x", delay=30)
        # "... it opens the target queue. No authorization checks are carried out at this point."
        take_away(mq, "LATER", "ALL")
        [delivered] = await mq.drain("LATER")

    assert b"x" == delivered.data
    assert [] == mq.told(DelayProcessorStopped)


async def test_a_message_that_is_not_poison_needs_no_more_than_get(mq: QueueManagerKit) -> None:
    for queue, words in (("BOQ", "ALL"), (DLQ, "ALL")):
        take_away(mq, queue, words)
    app, seen = App(), []

    @app.listener("IN")
    async def handle(body: bytes) -> None:
        seen.append(body)

    await run_for(mq, 1, app, b"good", user="app")

    assert [b"good"] == seen
    assert [0] == [event.backout_count for event in mq.told(Delivered)]
