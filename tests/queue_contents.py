"""The messages of a queue: a test puts some, looks at all of them, or takes all of them."""

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions, Got, QueueManager

__all__ = ("browsed", "put", "taken", "with_counts")

_LOOK = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
_TAKE = GetOptions(options=GetOption.NO_SYNCPOINT)
_PLAIN = MessageDescriptor()


def browsed(queue_manager: QueueManager, queue: str) -> list[Got]:
    return _found(queue_manager, queue, OpenOption.BROWSE, _LOOK)


def taken(queue_manager: QueueManager, queue: str) -> list[Got]:
    return _found(queue_manager, queue, OpenOption.INPUT_SHARED, _TAKE)


def with_counts(queue_manager: QueueManager, queue: str) -> list[tuple[str, int]]:
    """Take the messages. Return each as text, with its BackoutCount."""
    return [(got.body.decode(), got.descriptor.backout_count) for got in taken(queue_manager, queue)]


def _found(queue_manager: QueueManager, queue: str, use: OpenOption, options: GetOptions) -> list[Got]:
    connection = queue_manager.connect()
    handle = connection.open(queue, use)
    found = list(iter(lambda: connection.get(handle, options), None))
    connection.disconnect()
    return found


def put(
    queue_manager: QueueManager,
    queue: str,
    *bodies: bytes,
    descriptor: MessageDescriptor = _PLAIN,
    options: PutOption = PutOption.NO_SYNCPOINT,
) -> None:
    connection = queue_manager.connect()
    for body in bodies:
        connection.put1(queue, descriptor, body, options)
    connection.disconnect()
