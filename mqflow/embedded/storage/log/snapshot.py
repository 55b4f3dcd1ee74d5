"""Makes the snapshot of a replayed log, without descriptors and bodies. This module writes nothing."""

from array import array
from collections.abc import Iterator

import msgspec

from mqflow.embedded.storage.log.contents import Contents, number_key
from mqflow.embedded.storage.medium import DamagedError
from mqflow.embedded.storage.store import Snapshot, StoredObject, StoredSerials
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes

__all__ = ("snapshot_of",)


def snapshot_of(contents: Contents) -> Snapshot:
    """Return the snapshot of these contents."""
    queues = dict(contents.queues())
    known = contents.facts.get(number_key("queue_manager"))
    return Snapshot(
        queue_manager=None if known is None else msgspec.msgpack.decode(known[1], type=QueueManagerAttributes),
        queues=tuple(queues.values()),
        serials=tuple(_serials(contents, queues)),
        next_serial=contents.number("next_serial", 1),
        quarantined=contents.quarantined(),
        objects=tuple(StoredObject(kind, name, attributes) for _, kind, name, attributes in contents.objects()),
    )


def _serials(contents: Contents, queues: dict[int, QueueAttributes]) -> Iterator[StoredSerials]:
    """Yield the messages that are still there and not in quarantine; forget what the replay met."""
    for (queue, order_priority), met in contents.met.items():
        left = sorted({serial for serial in met if contents.places.get(serial) and serial not in contents.damaged})
        if left and queue not in queues:
            raise DamagedError(f"the definition of queue {queue} is missing")
        if left:
            yield StoredSerials(queues[queue].name, order_priority, array("q", left))
    contents.met.clear()
