"""A poison message that no destination accepts stays on its queue. The other messages of the queue are handled meanwhile."""

from collections import Counter

import anyio
import pytest

from mqflow import App, Message, Reject
from mqflow.events import Disposed, ListenerPaused, ListenerResumed, Reconnected, Reconnecting, Warned
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


def handling(seen: Counter[bytes], **options: bool | int) -> App:
    app = App()

    @app.listener("IN", **options)  # type: ignore[arg-type]  # only options that are numbers
    async def handle(message: Message) -> None:
        seen[message.body] += 1
        if message.body.startswith(b"bad"):
            raise Reject("never")

    return app


async def put(mq: QueueManagerKit, *bodies: bytes) -> None:
    for body in bodies:
        await mq.put("IN", body)


GOOD = tuple(b"good %d" % number for number in range(20))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("unit_of_work", [1, 4])
async def test_one_bad_message_that_nothing_accepts_does_not_keep_twenty_good_messages(
    mq: QueueManagerKit, concurrency: int, unit_of_work: int
) -> None:
    mq.define("IN")
    seen = Counter[bytes]()
    await put(mq, b"bad", *GOOD)

    async with mq.run(handling(seen, concurrency=concurrency, unit_of_work=unit_of_work)):
        await anyio.sleep(30)
        assert 1 == mq.depth("IN")
        mq.define("BOQ")
        mq.mqsc("ALTER QLOCAL(IN) BOTHRESH(9) BOQNAME(BOQ)")
        with mq.faults.outage():
            pass
        await anyio.sleep(120)

    assert {b"bad", *GOOD} == seen.keys()
    assert 1 == seen[b"bad"]
    [moved] = mq.browse("BOQ")
    assert (1, "Reject") == (moved.why.count, moved.why.error)
    assert mq.told(ListenerResumed)


async def test_several_bad_messages_stay_and_those_that_come_later_are_handled(mq: QueueManagerKit) -> None:
    mq.define("IN")
    seen = Counter[bytes]()

    async with mq.run(handling(seen)):
        await put(mq, b"bad 1", b"bad 2", *GOOD[:10])
        await anyio.sleep(100)
        await put(mq, *GOOD[10:])
        await anyio.sleep(130)

    assert dict.fromkeys((b"bad 1", b"bad 2", *GOOD), 1) == seen
    assert 2 == mq.depth("IN")


async def test_attempts_to_move_a_message_become_rare_while_others_are_handled(mq: QueueManagerKit) -> None:
    mq.define("IN")
    seen = Counter[bytes]()

    async with mq.run(handling(seen, concurrency=4)):
        await put(mq, b"bad")
        for number in range(1_200):
            await mq.put("IN", b"bad %d" % number if number in {300, 600} else b"%d" % number)
            await anyio.sleep(1)

    assert {1} == set(seen.values())
    assert 1_201 == len(seen)
    assert len(mq.told(Disposed)) == len(mq.told(ListenerPaused)) < 80


async def test_a_listener_in_strict_order_waits_for_the_message_that_stays(mq: QueueManagerKit) -> None:
    mq.define("IN")
    seen = Counter[bytes]()
    await put(mq, b"bad", *GOOD)

    await run_for(mq, 600, handling(seen, strict_order=True))

    assert {b"bad": 1} == seen
    assert 21 == mq.depth("IN")


@pytest.mark.parametrize(("words", "handled"), [("GET,INQ", 0), ("GET,INQ,BROWSE", 20)])
async def test_a_listener_gets_past_a_message_that_stays_if_its_user_may_browse_the_queue(
    mq: QueueManagerKit, words: str, handled: int
) -> None:
    mq.define("IN")
    mq.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(CONNECT,INQ)",
        f"SET AUTHREC PROFILE('IN') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD({words})",
    )
    seen = Counter[bytes]()
    await put(mq, b"bad", *GOOD)

    await run_for(mq, 600, handling(seen, concurrency=2), user="orders")

    assert {b"bad": 1} | dict.fromkeys(GOOD[:handled], 1) == seen
    assert 21 - handled == mq.depth("IN")
    assert (not handled) == len([warned for warned in mq.told(Warned) if "cannot be browsed" in warned.text])


@pytest.mark.parametrize("reason", [Reason.GET_INHIBITED, Reason.RESOURCE_PROBLEM, Reason.OBJECT_CHANGED], ids=reason_name)
async def test_a_browse_that_is_refused_for_a_moment_does_not_end_the_handling_of_the_other_messages(
    mq: QueueManagerKit, reason: Reason
) -> None:
    mq.define("IN")
    seen = Counter[bytes]()
    await put(mq, b"bad")

    async with mq.run(handling(seen)):
        await anyio.sleep(100)
        mq.faults.add(Fault(verb="MQGET", object_name="IN", reason=reason))
        await put(mq, *GOOD)
        await anyio.sleep(130)

    assert dict.fromkeys((b"bad", *GOOD), 1) == seen
    assert reason in {paused.reason for paused in mq.told(ListenerPaused)}


async def test_a_listener_that_waits_for_other_messages_makes_few_calls(mq: QueueManagerKit) -> None:
    mq.define("IN")
    await put(mq, b"bad")

    await run_for(mq, 600, handling(Counter[bytes]()))

    assert len(mq.told(ListenerPaused)) > 10
    assert len([call for call in mq.faults.calls if call.verb == "MQGET"]) < 200


async def test_a_connection_that_is_lost_during_the_browse_for_other_messages_is_made_again(mq: QueueManagerKit) -> None:
    mq.define("IN")
    seen = Counter[bytes]()
    await put(mq, b"bad")

    async with mq.run(handling(seen)):
        await anyio.sleep(1)
        with mq.faults.outage():
            await anyio.sleep(1)
        await put(mq, *GOOD)
        await anyio.sleep(5)
        assert dict.fromkeys((b"bad", *GOOD), 1) == seen

    assert mq.told(Reconnecting)
    assert 1 == len(mq.told(Reconnected))
