"""Records of decisions that no listener takes: of the consumer, the DLQ handler and the delay processor of an application."""

from pathlib import Path

import anyio
import pytest

from mqflow import App
from mqflow.app.settings import Settings
from mqflow.policy.disposition_record import DISPOSITION_QUEUE, DispositionRecord, RecordOutcome, from_bytes
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.kit import QueueManagerKit

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

ON = Settings(disposition_queue=DISPOSITION_QUEUE)
COMMITTED, REDRIVEN = RecordOutcome.COMMITTED, RecordOutcome.REDRIVEN


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    mq.define("BOQ")
    mq.define("IN", bothresh=1, boqname="BOQ")
    mq.define(DISPOSITION_QUEUE)


async def recorded(mq: QueueManagerKit) -> list[DispositionRecord]:
    """What was recorded, heartbeats left out, in the order in which it happened."""
    read = [from_bytes(found.data) for found in await mq.drain(DISPOSITION_QUEUE, at_least=0)]
    found = [each for each in read if each is not None and each.outcome is not RecordOutcome.HEARTBEAT]
    return sorted(found, key=lambda each: each.event_ts)


# -- the DLQ handler


async def test_what_the_dlq_handler_puts_back_is_told_of_before_its_delivery(mq: QueueManagerKit, tmp_path: Path) -> None:
    mq.define("DEAD.LETTERS")
    table = tmp_path / "rules.tbl"
    table.write_text("INPUTQ(DEAD.LETTERS) WAIT(YES)\nACTION(RETRY)\n")
    app = App(name="orders", settings=ON)
    app.dead_letter_handler(table)

    @app.listener("IN")
    async def take(order: bytes) -> None:
        pass

    async with mq.run(app):
        connection = mq.queue_manager.connect()
        put_dead_letter(connection, "DEAD.LETTERS", b"one", queue="IN")
        connection.disconnect()
        await anyio.sleep(1)

    redriven, committed = await recorded(mq)
    assert (REDRIVEN, "orders/DLQ handler", None) == (redriven.outcome, redriven.consumer, redriven.handler)
    assert (COMMITTED, "take") == (committed.outcome, committed.handler)
    assert (redriven.msg_id, redriven.put_ts, redriven.queue) == (committed.msg_id, committed.put_ts, committed.queue)
