"""The place of a poison message that its backout queue refuses, and the header with the reason of its move."""

import anyio
import pytest

from mqflow import App, Reject
from mqflow.events import Attempt, ListenerPaused, Reconnecting
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Discard, Requeue
from mqflow.policy.poison.moved_message import why
from mqflow.runtime.listener.poison_mover import _feedback
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio")

TOO_BIG = Reason.MSG_TOO_BIG_FOR_Q
REFUSED = (Attempt(Requeue("BOQ"), Reason.Q_FULL), Attempt(DeadLetter("DLQ", Reason.Q_FULL), Reason.PUT_INHIBITED))


@pytest.mark.parametrize(
    ("attempts", "feedback"),
    [
        ((*REFUSED, Attempt(Discard("asked for"))), Reason.Q_FULL),
        ((REFUSED[0], Attempt(DeadLetter("DLQ", Reason.PUT_INHIBITED))), Reason.Q_FULL),
        ((REFUSED[1], Attempt(Discard("asked for"))), Reason.PUT_INHIBITED),
        ((Attempt(DeadLetter("DLQ", Reason.JMS_FORMAT_ERROR)),), Reason.JMS_FORMAT_ERROR),
        ((Attempt(Discard("asked for")),), Reason.BACKOUT_THRESHOLD_REACHED),
    ],
)
def test_an_exception_report_names_the_first_refusal_or_the_reason_of_the_mqdlh(
    attempts: tuple[Attempt, ...], feedback: int
) -> None:
    assert feedback == _feedback(attempts)


@pytest.mark.parametrize(
    ("verb", "queue", "calls"),
    [("MQINQ", "", 1), ("MQOPEN", "BOQ", 1), ("MQPUT", "BOQ", 1), ("MQCLOSE", "BOQ", 1), ("MQCMIT", "", 1)],
)
async def test_a_move_whose_connection_breaks_is_made_on_the_next_and_pauses_no_listener(
    mq: QueueManagerKit, verb: str, queue: str, calls: int
) -> None:
    mq.define("BOQ")
    mq.define("IN", bothresh=3, boqname="BOQ")
    app = App()

    @app.listener("IN")
    async def handle(_: str) -> None:
        mq.faults.add(*faults)
        faults.clear()
        raise Reject("never")

    faults = [Fault(verb=verb, object_name=queue, times=calls)]
    await mq.put("IN", "an order")
    async with mq.run(app):
        [moved] = await mq.drain("BOQ", within_s=60)
        await anyio.sleep(10)

    assert ("an order", 0, 0) == (moved.text(), mq.depth("IN"), mq.depth("BOQ"))
    assert ([], 1) == (mq.told(ListenerPaused), len(mq.told(Reconnecting)))


@pytest.mark.parametrize(
    ("refusal", "times", "has_properties", "boq", "dlq"),
    [
        (Reason.NONE, 0, False, ["Reject"], []),
        (TOO_BIG, 1, False, [None], []),
        (Reason.MSG_TOO_BIG_FOR_Q_MGR, 1, False, [None], []),
        (Reason.DATA_LENGTH_ERROR, 1, False, [None], []),
        (Reason.MSG_TOO_BIG_FOR_CHANNEL, 1, False, [None], []),
        (Reason.MSG_TOO_BIG_FOR_CHANNEL, 2, False, [], [Reason.MSG_TOO_BIG_FOR_CHANNEL]),
        (TOO_BIG, 2, False, [], [TOO_BIG]),
        (TOO_BIG, 1, True, [], [TOO_BIG]),
        (Reason.Q_FULL, 1, False, [], [Reason.Q_FULL]),
        (Reason.PUT_INHIBITED, 1, False, [], [Reason.PUT_INHIBITED]),
    ],
)
async def test_only_a_message_that_is_too_big_with_its_reason_is_moved_without_it(
    mq: QueueManagerKit, refusal: Reason, times: int, *, has_properties: bool, boq: list[str | None], dlq: list[int]
) -> None:
    for name in ("BOQ", "DLQ"):
        mq.define(name)
    mq.define("IN", bothresh=3, boqname="BOQ")
    mq.mqsc("ALTER QMGR DEADQ(DLQ)")
    app = App()

    @app.listener("IN")
    async def handle(_: str) -> None:
        raise Reject("never")

    if times:
        mq.faults.add(Fault(verb="MQPUT", object_name="BOQ", reason=refusal, times=times))
    await mq.put("IN", "an order", properties={"colour": "blue"} if has_properties else None)
    async with mq.run(app):
        [moved] = await mq.drain("BOQ" if boq else "DLQ", within_s=60)

    said = why(moved.descriptor, moved.data)
    assert "an order" == moved.text()
    assert (boq or dlq) == [said and (said.error if boq else said.reason)]
    assert (0, 0, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth("DLQ"))
