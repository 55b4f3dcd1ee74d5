"""taskiq on NATS JetStream with file storage: pulls of 100, acknowledged when executed, no results."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ

import msgspec
from nats.js.api import StorageType, StreamConfig
from taskiq.api import run_receiver_task
from taskiq_nats import PullBasedJetStreamBroker

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Publish, Tally, run


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    broker = PullBasedJetStreamBroker(
        environ["PEER_URL"],
        subject=QUEUE,
        stream_name=QUEUE,
        durable=QUEUE,
        stream_config=StreamConfig(name=QUEUE, subjects=[QUEUE], storage=StorageType.FILE),
        pull_consume_batch=100,
        pull_consume_timeout=1.0,
    )

    @broker.task(task_name="handle")
    async def handle(order: dict[str, object]) -> None:
        assert tally is not None
        tally.order(msgspec.convert(order, Order))

    await broker.startup()
    receiver = None
    if tally is not None:
        receiver = asyncio.create_task(run_receiver_task(broker, max_async_tasks=workers, max_prefetch=100))
    yield lambda order: handle.kiq(msgspec.to_builtins(order))
    assert receiver is None, "the last order ends the process"
    await broker.shutdown()


if __name__ == "__main__":
    run(opened)
