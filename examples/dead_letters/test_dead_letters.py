"""Each dead letter goes to the queue that the function or the table names. The time is virtual: no test waits for RETRYINT."""

import anyio
import pytest

from examples.dead_letters.app import app
from mqflow import Reason
from mqflow.testing.dead_letters import put_dead_letter
from mqflow.testing.kit import QueueManagerKit


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    for queue in ("DEAD.LETTERS", "DEAD.FOR.GOOD", "ORDERS.IN", "ORDERS.TAKEN"):
        mq.define(queue)


def die(mq: QueueManagerKit, body: bytes, reason: Reason) -> None:
    """Put a message on the dead-letter queue, with ORDERS.IN as its destination queue."""
    connection = mq.queue_manager.connect()
    put_dead_letter(connection, "DEAD.LETTERS", body, reason=reason, queue="ORDERS.IN")
    connection.disconnect()


async def test_a_message_that_found_a_full_queue_is_taken_later(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":1}', Reason.Q_FULL)
        [taken] = await mq.drain("ORDERS.TAKEN")

    assert taken.json() == {"number": 1, "paid": False}


async def test_a_queue_that_is_inhibited_is_tried_every_half_minute(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(DISABLED)")

    async with mq.run(app):
        die(mq, b'{"number":2}', Reason.PUT_INHIBITED)
        await anyio.sleep(65)
        waiting = mq.depth("DEAD.LETTERS")
        mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(ENABLED)")
        [taken] = await mq.drain("ORDERS.TAKEN", within_s=60)

    assert waiting == 1
    assert taken.json()["number"] == 2


async def test_a_message_without_a_rule_goes_to_the_queue_for_a_person(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":3}', Reason.NOT_AUTHORIZED)
        [dead] = await mq.drain("DEAD.FOR.GOOD")

    assert dead.why.reason == Reason.NOT_AUTHORIZED


async def test_a_paid_order_is_retried_for_any_reason(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":4,"paid":true}', Reason.NOT_AUTHORIZED)
        [taken] = await mq.drain("ORDERS.TAKEN")

    assert taken.json() == {"number": 4, "paid": True}
