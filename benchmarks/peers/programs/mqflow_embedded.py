"""mqflow with its embedded queue manager. `PEER_URL` names the folder; each commit is forced to the disk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from os import environ

from benchmarks.orders import Order
from benchmarks.peers.measured import Publish, Tally, run
from mqflow import App, Backout
from mqflow.embedded.queue_manager import EmbeddedQueueManager

QUEUE = "SYSTEM.DEFAULT.LOCAL.QUEUE"


@asynccontextmanager
async def opened(tally: Tally | None, workers: int) -> AsyncIterator[Publish]:
    app = App(environ["PEER_URL"])
    persistent = ":memory:" not in environ["PEER_URL"]
    if tally is not None:

        @app.listener(
            QUEUE,
            concurrency=workers,
            unit_of_work=int(environ["PEER_UNIT"]),
            backout=Backout(threshold=3, queue="SYSTEM.DEAD.LETTER.QUEUE"),
        )
        async def handle(order: Order) -> None:
            tally.order(order)

    async with app.running() as running:
        assert isinstance(running.queue_manager, EmbeddedQueueManager)
        running.queue_manager.administration.alter(QUEUE, {"max_depth": 999_999_999})  # MAXDEPTH is 5000 otherwise
        yield lambda order: app.put(QUEUE, order, persistent=persistent)


if __name__ == "__main__":
    run(opened)
