"""The messages of a queue. They stay there."""

from mqflow.mqi.options import GetOption, OpenOption
from mqflow.verbs import GetOptions, Got, QueueManager

__all__ = ("browsed",)

_LOOK = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)


def browsed(queue_manager: QueueManager, queue: str) -> list[Got]:
    connection = queue_manager.connect()
    handle = connection.open(queue, OpenOption.BROWSE)
    found = list(iter(lambda: connection.get(handle, _LOOK), None))
    connection.disconnect()
    return found
