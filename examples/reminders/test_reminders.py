"""The letter goes out after an hour and not before. The test takes milliseconds, because its time is virtual."""

import anyio

from examples.reminders.app import app
from mqflow.testing.kit import QueueManagerKit


async def test_an_order_is_reminded_of_after_an_hour(mq: QueueManagerKit) -> None:
    for queue in ("ORDERS.IN", "REMINDERS", "LETTERS"):
        mq.define(queue)

    async with mq.run(app):
        await mq.put("ORDERS.IN", {"number": 7})
        await anyio.sleep(59 * 60)
        early = mq.depth("LETTERS")
        await anyio.sleep(2 * 60)
        [letter] = await mq.drain("LETTERS")

    assert early == 0
    assert letter.json() == {"text": "Order 7 is still to be paid."}
