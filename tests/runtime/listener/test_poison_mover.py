"""The place of a poison message that its backout queue refuses, and the header with the reason of its move."""

import pytest

from mqflow import App, Reject
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import why
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio")

TOO_BIG = Reason.MSG_TOO_BIG_FOR_Q


@pytest.mark.parametrize(
    ("refusal", "times", "has_properties", "boq", "dlq"),
    [
        (Reason.NONE, 0, False, ["Reject"], []),
        (TOO_BIG, 1, False, [None], []),
        (Reason.MSG_TOO_BIG_FOR_Q_MGR, 1, False, [None], []),
        (TOO_BIG, 2, False, [], [TOO_BIG]),
        (TOO_BIG, 1, True, [], [TOO_BIG]),
        (Reason.Q_FULL, 1, False, [], [Reason.Q_FULL]),
        (Reason.PUT_INHIBITED, 1, False, [], [Reason.PUT_INHIBITED]),
    ],
)
async def test_only_a_message_that_is_too_big_with_its_reason_is_moved_without_it(
    mq: QueueManagerKit,
    refusal: Reason,
    times: int,
    has_properties: bool,  # noqa: FBT001 - a column of the table
    boq: list[str | None],
    dlq: list[int],
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
