"""Celery on Redis: JSON, acknowledged late, no results; one worker is "solo", several are threads."""

from os import environ

import msgspec
from celery import Celery

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Tally, Threaded, run_with_threads


def opened(tally: Tally | None, workers: int) -> Threaded:
    app = Celery("orders", broker=environ["PEER_URL"])
    app.conf.update(task_acks_late=True, task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=100)
    app.conf.update(worker_hijack_root_logger=False, worker_redirect_stdouts=False, broker_connection_retry_on_startup=True)

    @app.task(name="handle")
    def handle(order: dict[str, object]) -> None:
        assert tally is not None
        tally.order(msgspec.convert(order, Order))

    def serve() -> None:
        pool = "solo" if workers == 1 else "threads"
        words = ["worker", "-P", pool, "-c", str(workers), "-l", "ERROR"]
        app.worker_main([*words, "--without-gossip", "--without-mingle", "--without-heartbeat"])

    return lambda order: handle.delay(msgspec.to_builtins(order)), serve


if __name__ == "__main__":
    run_with_threads(opened)
