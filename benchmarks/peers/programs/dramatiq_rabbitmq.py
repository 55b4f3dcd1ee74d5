"""dramatiq on RabbitMQ: its default middleware and encoder, an actor on threads."""

from os import environ
from threading import Event

import dramatiq
import msgspec
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks.orders import Order
from benchmarks.peers.measured import QUEUE, Tally, Threaded, run_with_threads


def opened(tally: Tally | None, workers: int) -> Threaded:
    broker = RabbitmqBroker(url=environ["PEER_URL"], confirm_delivery=True)
    dramatiq.set_broker(broker)

    @dramatiq.actor(queue_name=QUEUE)
    def handle(order: dict[str, object]) -> None:
        assert tally is not None
        tally.order(msgspec.convert(order, Order))

    def serve() -> None:
        dramatiq.Worker(broker, worker_threads=workers).start()
        Event().wait()

    return lambda order: handle.send(msgspec.to_builtins(order)), serve


if __name__ == "__main__":
    run_with_threads(opened)
