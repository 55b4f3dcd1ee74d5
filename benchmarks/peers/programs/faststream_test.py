"""FastStream's test broker: publish and handle in memory, without a server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fast_depends.msgspec import MsgSpecSerializer
from faststream.nats import NatsBroker, TestNatsBroker

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Publish, Tally, run


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    assert tally is not None
    assert workers == 1
    broker = NatsBroker(logger=None, serializer=MsgSpecSerializer())

    @broker.subscriber(QUEUE)
    async def handle(order: Order) -> None:
        tally.order(order)

    async with TestNatsBroker(broker):
        yield lambda order: broker.publish(order, QUEUE)


if __name__ == "__main__":
    run(opened)
