"""A listener whose poison messages cannot be known or moved says so once at its start, with the command that helps."""

import pytest

from mqflow import App, Backout, Behaviour
from mqflow.events import Warned
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio")

NO_THRESHOLD = (
    "IN has no backout threshold, so a message that always fails is redelivered for ever. "
    "ALTER QLOCAL('IN') BOTHRESH(3) BOQNAME('...') ends that, or Backout(threshold=3, queue=...)."
)
OWN_QUEUE = (
    "BOQNAME of IN is IN, the queue itself, so it is not used: a moved message would begin again with a backout count of 0. "
    "ALTER QLOCAL('IN') BOQNAME('...') changes that."
)
NO_QUEUE = (
    "IN has no backout requeue queue, and the queue manager has no dead-letter queue. "
    "A poison message stays on its queue, and the listener pauses. ALTER QLOCAL('IN') BOQNAME('...') changes that."
)
DISCARDED = NO_QUEUE.replace("stays on its queue, and the listener pauses", "is discarded")
BY_QUEUE = Backout()
ROWS = [
    pytest.param("BOTHRESH(0)", "", BY_QUEUE, NO_THRESHOLD, id="no threshold"),
    pytest.param("BOTHRESH(3) BOQNAME('IN')", "", BY_QUEUE, OWN_QUEUE, id="the queue itself"),
    pytest.param("BOTHRESH(3)", "", BY_QUEUE, NO_QUEUE, id="no queue at all"),
    pytest.param("BOTHRESH(3)", "DLQ", BY_QUEUE, "", id="a dead-letter queue"),
    pytest.param("BOTHRESH(3) BOQNAME('BAD')", "", BY_QUEUE, "", id="a backout requeue queue"),
    pytest.param("BOTHRESH(0)", "", Backout(threshold=3, queue="BAD"), "", id="the listener's own settings"),
    pytest.param("BOTHRESH(3) BOQNAME('BAD')", "", Backout(threshold=0), NO_THRESHOLD, id="no threshold of its own"),
    pytest.param("BOTHRESH(3)", "", Backout(behaviour=Behaviour.JMS_CONSUMER), DISCARDED, id="a behaviour that discards"),
    pytest.param("BOTHRESH(0)", "DLQ", Backout(behaviour=Behaviour.BROKER_INPUT_NODE), "", id="a behaviour with a threshold"),
]


@pytest.mark.parametrize(("attributes", "dead_letter_queue", "backout", "expected"), ROWS)
async def test_a_listener_warns_once(
    mq: QueueManagerKit, attributes: str, dead_letter_queue: str, backout: Backout, expected: str
) -> None:
    mq.mqsc(
        f"DEFINE QLOCAL(IN) {attributes}",
        "DEFINE QLOCAL(BAD)",
        "DEFINE QLOCAL(DLQ)",
        f"ALTER QMGR DEADQ('{dead_letter_queue}')",
    )
    app = App()

    @app.listener("IN", concurrency=2, backout=backout)
    async def handle(body: str) -> None: ...

    async with mq.run(app):
        pass

    assert [expected] * bool(expected) == [event.text for event in mq.told(Warned)]
