"""Finds out whether the results that publishers put are persistent: by their declaration, or by DEFPSIST of the queue.

This file knows only publishers. No declaration names the queues on which a handler itself puts messages.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from mqflow.app.handlers.listener_declaration import Listener, publishers_of
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.verbs import Connection

__all__ = ("Output", "outputs")

_DEFAULT_PERSISTENCE: Final = 5
"""The number of MQIA_DEF_PERSISTENCE."""


class Output(Struct, frozen=True):
    """The results of a listener that go to one queue."""

    queue: str
    #: True if the results are persistent; None if DEFPSIST decides and cannot be inquired.
    persistent: bool | None
    #: The place that decides this: the source code, or DEFPSIST of the queue.
    source: str
    #: A sentence: a restart of the queue manager removes messages, or the inquiry failed. Empty if all is well.
    warning: str = ""


def outputs(connection: Connection, listener: Listener) -> Iterator[Output]:
    """Yield an output for each publisher of the listener's handlers, in their order.

    An output of non-persistent results has a warning if the listener can get persistent messages. A listener of a queue or of a
    durable subscription can. The queue of any other subscription is temporary, and has none. Nothing says which messages the
    senders really make persistent.
    """
    can_persist = listener.subscription is None or bool(listener.subscription.durable)
    for handler in listener.handlers:
        for publisher in publishers_of(handler):
            queue, persistent = publisher.queue, publisher.persistent
            source, decides = "source", f"persistent={persistent}"
            if persistent is None:
                source = f"DEFPSIST of {queue}"
                try:
                    persistent = _default_persistence(connection, queue)
                except MQIError as error:
                    yield Output(
                        queue, None, source, f"{handler.name} leaves the persistence of its results to {queue}: {error}"
                    )
                    continue
                decides = f"DEFPSIST({'YES' if persistent else 'NO'}) of {queue}"
            warning = (
                f"{handler.name} puts non-persistent results on {queue} ({decides}): they are lost when the queue manager "
                f"ends, also the results of persistent messages of {listener.queue}."
            )
            yield Output(queue, persistent, source, "" if persistent or not can_persist else warning)


def _default_persistence(connection: Connection, queue: str) -> bool:
    """Return DEFPSIST of the queue to which a put goes. If the queue is an alias, its own attribute counts (q097600)."""
    handle = connection.open(queue, OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING)
    try:
        return connection.inquire(handle, (_DEFAULT_PERSISTENCE,)).values[_DEFAULT_PERSISTENCE] == 1
    finally:
        connection.close(handle)
