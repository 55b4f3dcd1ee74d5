"""The real package ibmmq with its compiled code, on the stand-in library instead of IBM's. The tests need no IBM MQ."""

import importlib.util

import anyio
import pytest

from examples.ibm_mq.app import app
from mqflow import Message
from mqflow.testing.standin import StandInKit

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ibmmq") is None, reason="ibmmq is not installed")


@pytest.fixture(autouse=True)
def queues(mq_standin: StandInKit) -> None:
    for queue in ("ORDERS.IN", "ORDERS.TAKEN", "ORDERS.BOQ"):
        mq_standin.define(queue)


def sent(order: bytes, queue: str) -> Message:
    """Send an order while the application runs, and return the next message of the queue."""

    async def run() -> Message | None:
        async with app.running():
            await app.put("ORDERS.IN", order)
            async with app.consumer(queue) as consumer:
                return await consumer.receive(wait_ms=30_000)

    message = anyio.run(run)
    assert message is not None
    return message


def test_an_order_is_taken_over_the_client_package(mq_standin: StandInKit) -> None:
    assert sent(b'{"number":1}', "ORDERS.TAKEN").body == b'{"number":1}'

    [request, *_] = mq_standin.requests
    assert "APP.SVRCONN" in str(request.channel["ChannelName"])


def test_an_order_that_cannot_be_read_goes_to_the_backout_queue() -> None:
    assert sent(b'{"nummer":1}', "ORDERS.BOQ").body == b'{"nummer":1}'
