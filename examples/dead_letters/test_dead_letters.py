"""Each dead letter goes where the function or the table says; what RETRYINT takes half a minute for is over in milliseconds."""

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
    """Put a message on the dead-letter queue, as if it had been for ORDERS.IN."""
    connection = mq.queue_manager.connect()
    put_dead_letter(connection, "DEAD.LETTERS", body, reason=reason, queue="ORDERS.IN")
    connection.disconnect()


async def test_what_found_a_full_queue_is_taken_later(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":1}', Reason.Q_FULL)
        [taken] = await mq.drain("ORDERS.TAKEN")

    assert taken.json() == {"number": 1, "paid": False}


async def test_a_queue_that_is_shut_is_tried_every_half_minute(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(DISABLED)")

    async with mq.run(app):
        die(mq, b'{"number":2}', Reason.PUT_INHIBITED)
        await anyio.sleep(65)
        waiting = mq.depth("DEAD.LETTERS")
        mq.mqsc("ALTER QLOCAL(ORDERS.IN) PUT(ENABLED)")
        [taken] = await mq.drain("ORDERS.TAKEN", within_s=60)

    assert waiting == 1
    assert taken.json()["number"] == 2


async def test_what_no_rule_knows_goes_where_a_person_looks(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":3}', Reason.NOT_AUTHORIZED)
        [dead] = await mq.drain("DEAD.FOR.GOOD")

    assert dead.why.reason == Reason.NOT_AUTHORIZED


async def test_a_paid_order_is_not_given_up_whatever_the_reason(mq: QueueManagerKit) -> None:
    async with mq.run(app):
        die(mq, b'{"number":4,"paid":true}', Reason.NOT_AUTHORIZED)
        [taken] = await mq.drain("ORDERS.TAKEN")

    assert taken.json() == {"number": 4, "paid": True}
