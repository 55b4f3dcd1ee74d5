"""The figures of the queues of an application: depth, and the age of the oldest message. Inquire authority is enough.

IBM MQ answers an inquiry of the depth (MQINQ). Only the embedded queue manager also tells the age of the oldest message.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mqflow.cli.connection_options import administered
from mqflow.many_verbs import disconnect_without_commit, inquire_base_queue
from mqflow.mqi.attributes.queue import NOT_APPLICABLE
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection, QueueManager
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("Figures", "QueueFigures", "figures", "figures_of_all", "within")

_CURRENT_Q_DEPTH: Final = 3
"""MQIA_CURRENT_Q_DEPTH."""


class QueueFigures(Struct, frozen=True, kw_only=True):
    """The figures of one queue."""

    queue: str
    #: CURDEPTH, uncommitted messages included; of an alias, the depth of its target. None if the inquiry was refused.
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
                    local, depth = queue, _depth(connection, queue)
                    if depth is None:
                        local = inquire_base_queue(connection, queue).name
                        depth = _depth(connection, local)
                    age_s = None
                    if administration is not None:
                        with suppress(MQIError):
                            age_s = administration.queue_status(local).oldest_message_age_s
                    refused = f"{local} is not a local queue, so it has no depth." if depth is None else ""
                    found.append(QueueFigures(queue=queue, depth=depth, oldest_message_age_s=age_s, refused=refused))
                except MQIError as error:
                    found.append(QueueFigures(queue=queue, refused=str(error)))
    finally:
        disconnect_without_commit(connection)
    return tuple(found)


def _depth(connection: Connection, queue: str) -> int | None:
    """Return the depth; None if the queue has no messages of its own: an alias, or a remote queue."""
    handle = connection.open(queue, OpenOption.INQUIRE)
    try:
        depth = int(connection.inquire(handle, [_CURRENT_Q_DEPTH]).values[_CURRENT_Q_DEPTH])
    except MQIError as error:
        if error.reason != Reason.SELECTOR_NOT_FOR_TYPE:
            raise
        return None
    finally:
        connection.close(handle)
    return None if depth == NOT_APPLICABLE else depth


def figures_of_all(by_name: Mapping[str, Figures]) -> Figures:
    """Return a function for the queues of several queue managers; the name of a queue begins with that of its queue manager.

    The queue manager without a name has the queues without such a beginning.
    """

    def inquire(queues: Sequence[str], /) -> tuple[QueueFigures, ...]:
        found = dict[str, QueueFigures]()
        for name, own in by_name.items():
            prefix = f"{name}:" if name else ""
            mine = [queue for queue in queues if queue.rpartition(":")[0] == name]
            for each in own([queue.removeprefix(prefix) for queue in mine]):
                found[prefix + each.queue] = replace(each, queue=prefix + each.queue)
        return tuple(found[queue] for queue in queues)

    return inquire


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
