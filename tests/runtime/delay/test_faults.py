"""Delayed messages are moved, refused and reported while a connection breaks at any call: no message is lost or doubled."""

import anyio
import pytest

from mqflow import App
from mqflow.events import DelayedDelivered, Event, InDoubt, Reconnected
from mqflow.mqi.options import Report
from mqflow.mqi.reason_codes import Reason
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.testing.faults import CONNECT, Call, Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
QUEUES = ("LATER", "SHUT", "REPORTS", DLQ, STAGING)
PARTS = 4
UNIT_MAX = 32
ALONE = ("LATER", "SHUT", "LATER")
"""Two messages are delivered; one is refused, dead-lettered and reported. So each message is moved in a unit of its own."""
TOGETHER = ("LATER",) * 3


async def scenario(mq: QueueManagerKit, sent: tuple[str, ...], *plan: Fault) -> tuple[dict[str, int], list[Call]]:
    """Send these messages, and let the processor move them; SHUT refuses messages. Return the queue depths and the calls."""
    mq.faults.clear()
    mq.events.clear()
    mq.mqsc(*(f"CLEAR QLOCAL({name})" for name in QUEUES), "ALTER QLOCAL(SHUT) PUT(ENABLED)")
    before = len(mq.faults.calls)
    for queue in sent:
        await mq.put(queue, b"x", delay=1, persistent=True, reply_to_queue="REPORTS", report=int(Report.EXCEPTION))
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
    mq.faults.add(*plan)
    await run_for(mq, 60, App())
    return {name: mq.depth(name) for name in QUEUES}, list(mq.faults.calls[before:])


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    for name in ("LATER", "SHUT", "REPORTS"):
        mq.define(name, defpsist="YES")


@pytest.mark.parametrize(
    ("sent", "units", "part"), [*((ALONE, 3, part) for part in range(PARTS)), *((TOGETHER, 1, part) for part in range(2))]
)
async def test_no_delayed_message_is_lost_or_doubled_wherever_a_connection_breaks(
    mq: QueueManagerKit, sent: tuple[str, ...], units: int, part: int
) -> None:
    shut, parts = sent.count("SHUT"), PARTS if sent is ALONE else 2
    expected = {"LATER": len(sent) - shut, "SHUT": 0, "REPORTS": shut, DLQ: shut, STAGING: 0}
    found, calls = await scenario(mq, sent)
    assert expected == found
    # After the last commit the processor only waits: a fault after that commit tests nothing new.
    commits = [number for number, call in enumerate(calls, start=1) if call.verb == "MQCMIT"]
    assert len(commits) == units

    noticed = 0
    numbers = [number for number in range(1, commits[-1] + 4) if calls[number - 1].verb != CONNECT]
    for number in numbers[part::parts]:
        nth = sum(call.verb != CONNECT for call in calls[:number])
        for moment in Moment:
            found, _ = await scenario(mq, sent, Fault(nth=nth, moment=moment))
            assert expected == found, f"broken {moment.value} at {calls[number - 1]}"
            noticed += bool(mq.told(Reconnected))
    assert noticed > len(numbers) / parts, "too little was broken to prove anything"


async def test_messages_due_at_one_time_share_bounded_units_of_work(mq: QueueManagerKit) -> None:
    many = 2 * UNIT_MAX + 1
    found, calls = await scenario(mq, ("LATER",) * many)

    assert (many, 0) == (found["LATER"], found[STAGING])
    assert 3 == sum(call.verb == "MQCMIT" for call in calls)
    assert many == len(mq.told(DelayedDelivered))


async def test_a_unit_of_work_with_much_in_it_takes_no_more(mq: QueueManagerKit) -> None:
    for _ in range(4):
        await mq.put("LATER", bytes(600_000), delay=1, persistent=True)
    await run_for(mq, 60, App())

    assert 4 == mq.depth("LATER")
    assert 2 == sum(call.verb == "MQCMIT" for call in mq.faults.calls)


async def test_a_refusal_caused_by_a_full_unit_of_work_counts_for_no_message(mq: QueueManagerKit) -> None:
    full = Fault(verb="MQPUT1", object_name="LATER", nth=2, reason=Reason.SYNCPOINT_LIMIT_REACHED)
    found, _ = await scenario(mq, TOGETHER, full)

    assert {"LATER": 3, "SHUT": 0, "REPORTS": 0, DLQ: 0, STAGING: 0} == found


@pytest.mark.parametrize("nth", [1, 2])
async def test_a_message_whose_backout_is_refused_is_not_lost_with_a_later_commit(mq: QueueManagerKit, nth: int) -> None:
    await mq.put("SHUT", b"first", delay=5, persistent=True)
    await mq.put("LATER", b"second", delay=8, persistent=True)
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
    mq.faults.add(Fault(verb="MQBACK", nth=nth, reason=Reason.UNEXPECTED_ERROR))

    await run_for(mq, 60, App())

    assert {"LATER": 1, "SHUT": 0, "REPORTS": 0, DLQ: 1, STAGING: 0} == {name: mq.depth(name) for name in QUEUES}


@pytest.mark.parametrize("sent", [ALONE, TOGETHER])
async def test_a_staging_queue_in_order_of_arrival_is_gone_through_too(
    mq: QueueManagerKit, sent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_DELAY_QUEUE", "PLAIN")
    mq.define("PLAIN", defpsist="YES")
    async with mq.run(app := App()):
        for queue in sent:
            await app.put(queue, b"x", delay=5, persistent=True)
        mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
        await anyio.sleep(60)

    shut = sent.count("SHUT")
    assert (len(sent) - shut, shut, 0) == (mq.depth("LATER"), mq.depth(DLQ), mq.depth("PLAIN"))


async def test_a_commit_in_doubt_is_reported_with_every_message_of_its_unit(mq: QueueManagerKit) -> None:
    found, _ = await scenario(mq, TOGETHER, Fault(verb="MQCMIT", moment=Moment.AFTER))

    assert 3 == found["LATER"]
    [doubt] = mq.told(InDoubt)
    assert 3 == len(set(doubt.message_ids))


@pytest.mark.parametrize("sent", [ALONE, TOGETHER], ids=["in units of their own", "in one unit"])
async def test_a_delivery_is_reported_only_when_its_message_is_on_the_target(
    mq: QueueManagerKit, sent: tuple[str, ...]
) -> None:
    """The first unit of work is backed out in its commit, so an event before that commit is an event too many."""
    was_there: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, DelayedDelivered):
            was_there.append(event.message_id in {found.message_id for found in mq.browse(event.queue)})

    for queue in sent:
        await mq.put(queue, b"x", delay=1, persistent=True)
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
    mq.faults.add(Fault(verb="MQCMIT", reason=Reason.BACKED_OUT))
    await run_for(mq, 60, App(hooks=[look]))

    assert was_there
    assert [True] * mq.depth("LATER") == was_there
