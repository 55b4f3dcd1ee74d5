"""FastStream on RabbitMQ: a durable queue, persistent messages with confirms, 100 messages ahead, msgspec."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ

from fast_depends.msgspec import MsgSpecSerializer
from faststream.rabbit import Channel, RabbitBroker, RabbitQueue

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Publish, Tally, run


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    # A prefetch of 1 keeps one worker busy with one message: 100 messages wait ahead for each worker.
    broker = RabbitBroker(
        environ["PEER_URL"], logger=None, serializer=MsgSpecSerializer(), default_channel=Channel(prefetch_count=100 * workers)
    )
    queue = RabbitQueue(QUEUE, durable=True)
    if tally is not None:

        @broker.subscriber(queue)
        async def handle(order: Order) -> None:
            tally.order(order)

    publisher = broker.publisher(queue, persist=True)
    async with broker:
        await broker.start()
        await broker.declare_queue(queue)
        yield publisher.publish


if __name__ == "__main__":
    run(opened)
