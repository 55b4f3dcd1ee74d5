"""A takeover of a queue manager that is nobody's, in a folder that is gone afterwards: for a standby that has time.

What runs for the first time in a process takes twice as long: decoders are made, memory is asked for, modules are loaded. Knows
the parts that a takeover goes through; knows nothing of the folder that the standby waits for.
"""

import gc
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.folder import FolderError
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions

__all__ = ("rehearse",)

_QUEUE: Final = "REHEARSED"


def rehearse(name: str) -> None:
    """A takeover has run here once. Where there is no place for it, it has not, and the real one takes a little longer."""
    with suppress(OSError, FolderError, MQIError), TemporaryDirectory(prefix="mqflow-") as place:
        folder = Path(place)
        with EmbeddedQueueManager(name, store=SqliteStore(folder)) as queue_manager:
            queue_manager.administration.define(QueueAttributes(name=_QUEUE))
        for _ in range(2):  # the second finds a message
            with EmbeddedQueueManager(name, store=SqliteStore(folder)) as taken_over, serve(taken_over, folder / "socket"):
                _use(ServedQueueManager(folder / "socket"))
    gc.collect()
    gc.freeze()  # what is loaded stays: to look through it once more would take longer than the takeover


def _use(queue_manager: ServedQueueManager) -> None:
    connection = queue_manager.connect()
    connection.put1(_QUEUE, MessageDescriptor(persistence=Persistence.PERSISTENT), b"", PutOption.SYNCPOINT)
    connection.commit()
    as_applications_do = GetOptions(options=GetOption.SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
    connection.get(connection.open(_QUEUE, OpenOption.INPUT_SHARED), as_applications_do)
    connection.backout()
    connection.disconnect()
