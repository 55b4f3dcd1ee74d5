"""FastStream on a Redis stream with a consumer group: reads of 100, an acknowledgement for each message, msgspec."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ

from fast_depends.msgspec import MsgSpecSerializer
from faststream.redis import RedisBroker, StreamSub

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Publish, Tally, run


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    broker = RedisBroker(environ["PEER_URL"], logger=None, serializer=MsgSpecSerializer())
    if tally is not None:
        several = {} if workers == 1 else {"max_workers": workers}
        stream = StreamSub(QUEUE, group="orders", consumer="one", max_records=100, last_id="0")

        @broker.subscriber(stream=stream, **several)
        async def handle(order: Order) -> None:
            tally.order(order)

    publisher = broker.publisher(stream=QUEUE)
    async with broker:
        await broker.start()
        yield publisher.publish


if __name__ == "__main__":
    run(opened)
