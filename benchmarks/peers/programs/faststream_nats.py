"""FastStream on NATS JetStream with file storage: pulls of 100, an acknowledgement for each message, msgspec."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ

from fast_depends.msgspec import MsgSpecSerializer
from faststream.nats import JStream, NatsBroker, PullSub
from nats.js.api import StorageType

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Publish, Tally, run


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    broker = NatsBroker(environ["PEER_URL"], logger=None, serializer=MsgSpecSerializer())
    stream = JStream(QUEUE, subjects=[QUEUE], storage=StorageType.FILE)
    if tally is not None:
        several = {} if workers == 1 else {"max_workers": workers}

        @broker.subscriber(QUEUE, stream=stream, durable=QUEUE, pull_sub=PullSub(batch_size=100), **several)
        async def handle(order: Order) -> None:
            tally.order(order)

    publisher = broker.publisher(QUEUE, stream=stream)
    async with broker:
        await broker.start()
        yield publisher.publish


if __name__ == "__main__":
    run(opened)
