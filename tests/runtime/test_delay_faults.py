"""A connection that breaks at any call while delayed messages are moved, refused and reported: nothing is lost or doubled."""

import anyio
import pytest

from mqflow import App
from mqflow.events import Reconnected
from mqflow.mqi.options import Report
from mqflow.runtime.staging import EMBEDDED_STAGING_QUEUE as STAGING
from mqflow.testing.faults import CONNECT, Call, Fault, Moment
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
QUEUES = ("LATER", "SHUT", "REPORTS", DLQ, STAGING)
EXPECTED = {"LATER": 2, "SHUT": 0, "REPORTS": 1, DLQ: 1, STAGING: 0}
PARTS = 4


async def scenario(mq: QueueManagerKit, *plan: Fault) -> tuple[dict[str, int], list[Call]]:
    """Have two messages delivered and one refused, dead-lettered and reported; return where all is, and the calls it took."""
    mq.faults.clear()
    mq.events.clear()
    mq.mqsc(*(f"CLEAR QLOCAL({name})" for name in QUEUES), "ALTER QLOCAL(SHUT) PUT(ENABLED)")
    before = len(mq.faults.calls)
    for queue in ("LATER", "SHUT", "LATER"):
        await mq.put(queue, b"x", delay=1, persistent=True, reply_to_queue="REPORTS", report=int(Report.EXCEPTION))
    mq.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)")
    mq.faults.add(*plan)
    async with mq.run(App()):
        await anyio.sleep(60)
    return {name: mq.depth(name) for name in QUEUES}, list(mq.faults.calls[before:])


@pytest.mark.parametrize("part", range(PARTS))
async def test_no_delayed_message_is_lost_or_doubled_wherever_a_connection_breaks(mq: QueueManagerKit, part: int) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    for name in ("LATER", "SHUT", "REPORTS"):
        mq.define(name, defpsist="YES")
    found, calls = await scenario(mq)
    assert EXPECTED == found
    # Beyond the last commit the processor only waits, which looks alike each time.
    commits = [number for number, call in enumerate(calls, start=1) if call.verb == "MQCMIT"]
    assert len(commits) == 3

    noticed = 0
    numbers = [number for number in range(1, commits[-1] + 4) if calls[number - 1].verb != CONNECT]
    for number in numbers[part::PARTS]:
        nth = sum(call.verb != CONNECT for call in calls[:number])
        for moment in Moment:
            found, _ = await scenario(mq, Fault(nth=nth, moment=moment))
            assert EXPECTED == found, f"broken {moment.value} at {calls[number - 1]}"
            noticed += bool(mq.told(Reconnected))
    assert noticed > len(numbers) / PARTS, "too little was broken to prove anything"
