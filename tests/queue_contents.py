"""The messages of a queue: a test puts some, and sees all of them, which stay there."""

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import GetOptions, Got, QueueManager

__all__ = ("browsed", "put")

_LOOK = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
_PLAIN = MessageDescriptor()


def browsed(queue_manager: QueueManager, queue: str) -> list[Got]:
    connection = queue_manager.connect()
    handle = connection.open(queue, OpenOption.BROWSE)
    found = list(iter(lambda: connection.get(handle, _LOOK), None))
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
