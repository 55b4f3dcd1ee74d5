"""Sources of states for control sockets, which note their orders; and the figures that their servers answer with."""

from contextlib import ExitStack, closing
from pathlib import Path

from msgspec.structs import replace

from mqflow.cli.watching.control import Order, QueueFigures
from mqflow.cli.watching.sockets import ControlServer
from mqflow.policy.health.records import ApplicationStatus, ListenerStatus, ProcessStatus

FIGURES = (QueueFigures(queue="IN", depth=3, oldest_message_age_s=9),)


def status_of(number: int, **changed: object) -> ApplicationStatus:
    listener = ListenerStatus(name="booking", queue="IN", concurrency=2)
    process = ProcessStatus(process=100 + number, number=number, taken_at=1.0, ready=True, listeners=(listener,))
    return replace(ApplicationStatus(application="orders", process=100 + number, processes=(process,)), **changed)


class Named:
    """A source that notes its orders."""

    def __init__(self, number: int = 0, error: Exception | None = None) -> None:
        self.orders: list[Order] = []
        self.number = number
        self.error = error

    def status(self) -> ApplicationStatus:
        return status_of(self.number)

    def order(self, order: Order) -> None:
        if self.error is not None:
            raise self.error
        self.orders.append(order)


def depths(queues: object, /) -> tuple[QueueFigures, ...]:
    return FIGURES


def serve(stack: ExitStack, path: Path, source: Named) -> Named:
    stack.enter_context(closing(ControlServer(path, source, depths)))
    return source
