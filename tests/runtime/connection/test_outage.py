"""The facts of an outage: its duration, its attempts, and the objects that are open again."""

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Reconnected
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.ledger import Object, Opened
from mqflow.runtime.connection.inline_session import InlineSession
from mqflow.runtime.connection.outage import Outage
from mqflow.testing.virtual_clock import VirtualClock

ERRORS = [error_for(reason, "MQGET") for reason in (Reason.CONNECTION_BROKEN, Reason.CONNECTION_QUIESCING)]


def opened(number: int, name: str, *, temporary: bool = False) -> Opened:
    return Object(number=number, session="s", owner="o", name=name, options=OpenOption.INPUT_SHARED, temporary=temporary)


def test_an_outage_lasts_from_its_first_loss_and_reports_each_object_once_in_the_order_of_the_first_opens() -> None:
    clock = VirtualClock()
    outage = Outage(clock)
    clock.advance(100)
    outage.begin(ERRORS[0], goes_on=False)
    began = clock.monotonic()
    assert (began, ERRORS[0]) == outage.began
    clock.advance(2)
    outage.begin(ERRORS[1], goes_on=True)
    assert (began + 2, ERRORS[1]) == outage.began
    outage.reopened((opened(7, "OUT"), opened(3, "REPLIES", temporary=True)))
    outage.reopened((opened(5, "IN"), opened(4, "IN")))
    outage.count(2)
    outage.count(3)
    clock.advance(0.5)

    lost = ("REPLIES: the messages on the temporary queue",)
    ended = Reconnected(
        queue_manager="QM1", generation=2, objects=("REPLIES", "IN", "OUT"), gone=lost, attempts=5, downtime_ms=2_500.0
    )
    assert ended == outage.end("QM1", 2)
    clock.advance(1)
    outage.begin(ERRORS[0], goes_on=False)
    clock.advance(3)
    assert Reconnected(queue_manager="QM2", generation=3, objects=(), gone=(), attempts=0, downtime_ms=3_000.0) == outage.end(
        "QM2", 3
    )


@pytest.mark.mq_backend("asyncio")
@pytest.mark.usefixtures("mq")  # a session belongs to an event loop
async def test_all_sessions_are_back_when_no_owner_waits_for_one() -> None:
    outage = Outage(VirtualClock())
    connections = [EmbeddedQueueManager("QM1").connect() for _ in range(2)]
    first, second = map(InlineSession, connections)
    found = [outage.all_back]
    outage.expect(first)
    outage.expect(first)
    outage.expect(second)
    for session in (first, first, second):
        outage.expect_no_more(session)
        found.append(outage.all_back)

    assert [True, False, False, True] == found
