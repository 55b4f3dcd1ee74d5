"""The figures of the queues of an application: depth, and the age of the oldest message. Inquire authority is enough.

IBM MQ answers an inquiry of the depth (MQINQ). Only the embedded queue manager also tells the age of the oldest message.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

from mqflow.cli.connection_options import administered
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.verbs import QueueManager
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("Figures", "QueueFigures", "figures", "within")

_CURRENT_Q_DEPTH: Final = 3
"""MQIA_CURRENT_Q_DEPTH."""


class QueueFigures(Struct, frozen=True, kw_only=True):
    """The figures of one queue."""

    queue: str
    #: CURDEPTH, uncommitted messages included; None if the inquiry was refused.
    depth: int | None = None
    #: MSGAGE; None if there is no message, or if the queue manager does not tell it.
    oldest_message_age_s: int | None = None
    #: Why the inquiry was refused.
    refused: str = ""


class Figures(Protocol):
    """Returns the figures of the queues with these names, in this order. Never raises."""

    def __call__(self, queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        """Return the figures."""
        ...


def figures(queue_manager: QueueManager, queues: Sequence[str]) -> tuple[QueueFigures, ...]:
    """Return the figures of each queue, over a connection of its own. A refusal is part of the result."""
    try:
        connection = queue_manager.connect(application_name="mqflow status")
    except MQIError as error:
        return tuple(QueueFigures(queue=queue, refused=str(error)) for queue in queues)
    found: list[QueueFigures] = []
    try:
        with administered(queue_manager) as administration:
            for queue in queues:
                try:
                    handle = connection.open(queue, OpenOption.INQUIRE)
                    depth = connection.inquire(handle, [_CURRENT_Q_DEPTH]).values[_CURRENT_Q_DEPTH]
                    connection.close(handle)
                    age_s = None
                    if administration is not None:
                        with suppress(MQIError):
                            age_s = administration.queue_status(queue).oldest_message_age_s
                    found.append(QueueFigures(queue=queue, depth=int(depth), oldest_message_age_s=age_s))
                except MQIError as error:
                    found.append(QueueFigures(queue=queue, refused=str(error)))
    finally:
        disconnect_without_commit(connection)
    return tuple(found)


def within(
    limit_s: float, inquire: Callable[[Sequence[str]], tuple[QueueFigures, ...]], world: World = SYSTEM_WORLD
) -> Figures:
    """Return a function that answers within `limit_s`. If the queue manager needs longer, the answer has no depth.

    While an inquiry is under way, no second one begins.
    """
    running: list[object] = []

    def limited(queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        if not queues:
            return ()
        answers: list[tuple[QueueFigures, ...]] = []
        done = world.runner.event()

        def work() -> None:
            try:
                answers.append(inquire(queues))
            except Exception as error:  # noqa: BLE001 - for example an application that ends meanwhile; the scrape must not fail
                answers.append(tuple(QueueFigures(queue=queue, refused=f"{type(error).__name__}: {error}") for queue in queues))
            finally:
                running.clear()
                done.set()

        if not running:
            running.append(work)
            world.runner.start(work, "mqflow figures")
            if done.wait(limit_s):
                return answers[0]
        refused = f"The queue manager has not answered within {limit_s:g} s."
        return tuple(QueueFigures(queue=queue, refused=refused) for queue in queues)

    return limited
