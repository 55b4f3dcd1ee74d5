"""Many messages through one queue manager. Its open files, threads, objects and bytes on disk must not grow with them."""

import gc
import threading
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, Persistence, PutOption
from mqflow.verbs import GetOptions, ObjectHandle

__all__ = ("Held", "grown", "soak")

_UNIT: Final = 50
_DESCRIPTOR: Final = MessageDescriptor(persistence=Persistence.PERSISTENT)
_OBJECTS_SLACK: Final = 500
"""Caches with a bound, and the objects of one group of commits that is being written."""


_LOG_BYTES: Final = 8 * 1024 * 1024
"""More than the log before its checkpoint."""


class Held(Struct, frozen=True):
    """The resources that this process holds."""

    files: int
    threads: int
    objects: int
    disk_bytes: int


def soak(folder: Path, messages: int) -> tuple[int, list[str]]:
    """Put and get so many persistent messages. Return their number, and the resources that grew in the second half."""
    with EmbeddedQueueManager("QM1", store=SqliteStore(folder / "data")) as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="ORDERS.IN"))
        connection = queue_manager.connect()
        handle = connection.open("ORDERS.IN", OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
        units = max(2, messages // _UNIT // 2)
        held = []
        for _ in range(2):
            for number in range(units):
                _unit(connection, handle, back_out_first=number % 10 == 0)
            held.append(_held(folder))
    return 2 * units * _UNIT, grown(*held)


def _unit(connection: EmbeddedConnection, handle: ObjectHandle, *, back_out_first: bool) -> None:
    for _ in range(_UNIT):
        connection.put(handle, _DESCRIPTOR, bytes(512), PutOption.SYNCPOINT)
    connection.commit()
    for settle in (connection.backout, connection.commit) if back_out_first else (connection.commit,):
        for _ in range(_UNIT):
            assert connection.get(handle, GetOptions(options=GetOption.SYNCPOINT)) is not None, "a message is lost"
        settle()
    assert connection.get(handle, GetOptions(options=GetOption.SYNCPOINT)) is None, "a message is there twice"


def _held(folder: Path) -> Held:
    gc.collect()
    disk_bytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Held(sum(1 for _ in Path("/proc/self/fd").iterdir()), threading.active_count(), len(gc.get_objects()), disk_bytes)


def grown(half: Held, end: Held) -> list[str]:
    """Return a sentence for each resource that grew. The files on disk may differ by a log: it rests before its checkpoint."""
    wrong = []
    if end.files > half.files:
        wrong.append(f"open files grew from {half.files} to {end.files}")
    if end.threads > half.threads:
        wrong.append(f"threads grew from {half.threads} to {end.threads}")
    if end.objects > half.objects + _OBJECTS_SLACK:
        wrong.append(f"objects grew from {half.objects} to {end.objects}")
    if end.disk_bytes > half.disk_bytes + _LOG_BYTES:
        wrong.append(f"bytes on disk grew from {half.disk_bytes} to {end.disk_bytes}")
    return wrong
