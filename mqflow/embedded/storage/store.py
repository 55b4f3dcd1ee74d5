"""The interface between the state of the embedded queue manager and its storage.

The queue manager reports changes. A store makes a list of changes durable, all or nothing, in the given order. `MemoryStore`
stores nothing; `sqlite_store` stores everything. A damaged message goes to quarantine: it stays in the store, but is on no
queue. This module knows no rule of MQ.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.descriptor import MessageDescriptor

__all__ = (
    "BackoutCounted",
    "Change",
    "MemoryStore",
    "MessageAdded",
    "MessageRemoved",
    "ObjectDefined",
    "ObjectDeleted",
    "QueueCleared",
    "QueueDefined",
    "QueueDeleted",
    "QueueManagerDefined",
    "Snapshot",
    "Store",
    "StoredIdentifiers",
    "StoredMessage",
    "StoredSerials",
)


class StoredMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A committed message in the store."""

    #: The serial number gives the order of arrival in the whole queue manager. No number is used twice.
    serial: int
    queue: str
    #: The priority that decides the position of the message. With MSGDLVSQ(FIFO) it can differ from the descriptor's priority.
    order_priority: int
    descriptor: MessageDescriptor
    #: The wall clock time at which the message expires, in seconds since 1970; None for never.
    expires_at: float | None = None
    put_at: float = 0.0
    body: bytes
    body_bytes: int


class StoredSerials(Struct, frozen=True, gc=False):
    """The stored messages of one queue with the same `order_priority`, without their descriptors and bodies."""

    queue: str
    order_priority: int
    #: In ascending order.
    serials: Sequence[int]


class StoredIdentifiers(Struct, frozen=True, gc=False):
    """The identifiers of a stored message, by which a get can select it."""

    serial: int
    message_id: bytes
    correlation_id: bytes
    group_id: bytes


class MessageAdded(Struct, frozen=True, gc=False):
    """A persistent message was committed and is on its queue."""

    message: StoredMessage


class MessageRemoved(Struct, frozen=True, gc=False):
    """A message left its queue: by a committed get, by expiry, or by a CLEAR."""

    serial: int


class BackoutCounted(Struct, frozen=True, gc=False):
    """A unit of work that had got the message was backed out."""

    serial: int
    backout_count: int


class QueueDefined(Struct, frozen=True):
    """A queue was defined or altered."""

    attributes: QueueAttributes


class QueueDeleted(Struct, frozen=True):
    """A queue was deleted, with all its messages."""

    name: str
    #: The serial numbers of the messages on the queue. If None, the store searches the messages of all queues.
    serials: tuple[int, ...] | None = None


class QueueCleared(Struct, frozen=True):
    """Every message of a queue was deleted."""

    name: str
    #: The serial numbers of the messages on the queue, or None, as in `QueueDeleted`.
    serials: tuple[int, ...] | None = None


class QueueManagerDefined(Struct, frozen=True):
    """The queue manager's own attributes changed."""

    attributes: QueueManagerAttributes


class ObjectDefined(Struct, frozen=True):
    """An object other than a queue (a topic, a subscription ...) was defined or altered."""

    #: The kind of object: a key of `state.stored_objects.KINDS`.
    kind: str
    #: Unique within its kind.
    name: str
    #: The encoded record of the object.
    attributes: bytes


class ObjectDeleted(Struct, frozen=True):
    """An object other than a queue was deleted."""

    kind: str
    name: str


Change = (
    MessageAdded | MessageRemoved | BackoutCounted | QueueDefined | QueueDeleted | QueueCleared | QueueManagerDefined
    | ObjectDefined | ObjectDeleted
)  # fmt: skip


class Snapshot(Struct, frozen=True):
    """The contents of a store when it was opened, without the descriptors and bodies of its messages."""

    #: None in a new store.
    queue_manager: QueueManagerAttributes | None
    queues: tuple[QueueAttributes, ...]
    #: The messages that are not in quarantine. A queue and priority can have several entries, in order of serial number.
    serials: Iterable[StoredSerials]
    #: The highest serial number ever used, plus one.
    next_serial: int
    #: The damaged messages in quarantine, each with its serial number and the reason.
    quarantined: tuple[tuple[int, str], ...] = ()
    #: The objects other than queues, in the order of their first definition.
    objects: tuple[ObjectDefined, ...] = ()


class Store(Protocol):
    """The storage of one queue manager, owned by one process."""

    @property
    def durable(self) -> bool:
        """True if the changes survive the process. If not, the queue manager skips useless writes."""
        ...

    def load(self) -> Snapshot:
        """Return the contents. The queue manager calls this once, before the first write."""
        ...

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Make the changes, all or nothing, after the changes of all earlier calls.

        The writer thread calls `done` once: with None after the changes are synced to the disk, otherwise with an `MQIError`.
        2192 (disk full) means that no change was made. 2549 means that the outcome is unknown: the store has stopped
        permanently, and the queue manager must stop too. If `done` is None, the store writes the changes soon, and syncs them
        only if they count a backout. This call never waits for the disk.
        """

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Record that a unit of work has got this message, and return the mark. The mark survives a crash of the process.

        With `harden`, the mark also survives a power cut. After a crash, the next load counts this delivery as backed out:
        BackoutCount becomes at least `backout_count + 1`, and `read_messages` returns the new BackoutCount.
        """
        ...

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Release these marks after all earlier changes are written and all backout counts are synced."""

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        """Return at least the first of these messages, until their bodies together have `body_bytes_max` bytes.

        The value None means a damaged message, which goes to quarantine. The descriptors may lack `BackoutCounted` changes that
        were written without `done`. Any thread can call this. The call may wait for a sync.
        """
        ...

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        """Yield the identifiers of these messages in this order, without their bodies, and without damaged messages."""
        ...

    def close(self) -> None:
        """Write and sync all pending changes, and release the folder."""


class MemoryStore:
    """A store that stores nothing: for tests, and for a queue manager in memory."""

    durable = False

    def load(self) -> Snapshot:
        """Return an empty store."""
        return Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1)

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Call `done` immediately, because this store makes nothing durable."""
        if done is not None:
            done(None)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Return a number without a meaning, because nothing in this store survives a crash."""
        return 0

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Do nothing, because there are no marks."""

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        """Return no messages. The queue manager never calls this, because every message is in memory."""
        return dict.fromkeys(serials)

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        """Yield nothing. The queue manager never calls this, because every message is in memory."""
        return iter(())

    def close(self) -> None:
        """Do nothing, because there is no folder."""
