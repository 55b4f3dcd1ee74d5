"""Rehearses a takeover while a standby waits: it takes over a queue manager in a temporary folder.

When code runs for the first time in a process, it takes twice as long: Python builds decoders, asks for memory and loads
modules. This file does not use the folder for which the standby waits.
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
from mqflow.embedded.wire.server.listener import ServingError, serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions

__all__ = ("rehearse",)

_QUEUE: Final = "REHEARSED"


def rehearse(name: str) -> None:
    """Run the rehearsal. If the folder cannot be made or used, the rehearsal ends early, and the real takeover takes longer."""
    with suppress(OSError, FolderError, MQIError, ServingError), TemporaryDirectory(prefix="mqflow-") as place:
        folder = Path(place)
        with EmbeddedQueueManager(name, store=SqliteStore(folder)) as queue_manager:
            queue_manager.administration.define(QueueAttributes(name=_QUEUE))
        for _ in range(2):  # the second takeover finds a message
            with EmbeddedQueueManager(name, store=SqliteStore(folder)) as taken_over, serve(taken_over, folder / "socket"):
                _use(ServedQueueManager(folder / "socket"))
    gc.collect()
    gc.freeze()  # the loaded objects stay; a scan of them takes longer than a takeover


def _use(queue_manager: ServedQueueManager) -> None:
    connection = queue_manager.connect()
    connection.put1(_QUEUE, MessageDescriptor(persistence=Persistence.PERSISTENT), b"", PutOption.SYNCPOINT)
    connection.commit()
    application_options = GetOptions(options=GetOption.SYNCPOINT | GetOption.PROPERTIES_FORCE_MQRFH2)
    connection.get(connection.open(_QUEUE, OpenOption.INPUT_SHARED), application_options)
    connection.backout()
    connection.disconnect()
