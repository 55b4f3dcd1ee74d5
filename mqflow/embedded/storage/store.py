"""The contract between the state of the embedded queue manager and its storage.

The queue manager reports changes. A store makes a list of changes durable, all or nothing, in the given order. `MemoryStore`
keeps nothing; `sqlite_store` keeps everything. This module knows no rule of MQ.
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
    "StoredObject",
    "StoredSerials",
)


class StoredMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A committed message in storage."""

    #: Serial number: the order of arrival over the whole queue manager. No number is used twice.
    serial: int
    queue: str
    #: The priority that orders the message. MSGDLVSQ(FIFO) ignores the descriptor's priority.
    order_priority: int
    descriptor: MessageDescriptor
    #: The wall clock time when the message expires, in seconds since 1970; None for never.
    expires_at: float | None = None
    put_at: float = 0.0
    body: bytes
    body_bytes: int


class StoredSerials(Struct, frozen=True, gc=False):
    """Messages of one queue in storage that have one `order_priority`, without their descriptors and bodies."""

    queue: str
    order_priority: int
    #: In ascending order.
    serials: Sequence[int]


class StoredIdentifiers(Struct, frozen=True, gc=False):
    """The identifiers of a message in storage, by which a get can ask for the message."""

    serial: int
    message_id: bytes
    correlation_id: bytes
    group_id: bytes


class MessageAdded(Struct, frozen=True, gc=False):
    """A persistent message was committed onto its queue."""

    message: StoredMessage


class MessageRemoved(Struct, frozen=True, gc=False):
    """A message left its queue by a committed get, by expiry or by a clear."""

    serial: int


class BackoutCounted(Struct, frozen=True, gc=False):
    """A unit of work that got the message was backed out."""

    serial: int
    backout_count: int


class QueueDefined(Struct, frozen=True):
    """A queue was defined or altered."""

    attributes: QueueAttributes


class QueueDeleted(Struct, frozen=True):
    """A queue was deleted with all its messages."""

    name: str
    #: The messages on the queue. If None, the store searches the messages of all queues.
    serials: tuple[int, ...] | None = None


class QueueCleared(Struct, frozen=True):
    """Every message of a queue was deleted."""

    name: str
    #: The messages on the queue, like `QueueDeleted.serials`.
    serials: tuple[int, ...] | None = None


class QueueManagerDefined(Struct, frozen=True):
    """The queue manager's own attributes changed."""

    attributes: QueueManagerAttributes


class ObjectDefined(Struct, frozen=True):
    """An object other than a queue (a topic, a subscription ...) was defined or altered."""

    #: The kind of object, in one word of `state.stored_objects.KINDS`.
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
    MessageAdded
    | MessageRemoved
    | BackoutCounted
    | QueueDefined
    | QueueDeleted
    | QueueCleared
    | QueueManagerDefined
    | ObjectDefined
    | ObjectDeleted
)


class StoredObject(Struct, frozen=True):
    """An object other than a queue in storage."""

    kind: str
    name: str
    attributes: bytes


class Snapshot(Struct, frozen=True):
    """The contents of a store when it was opened, except the descriptors and bodies of its messages."""

    #: None in a new store.
    queue_manager: QueueManagerAttributes | None
    queues: tuple[QueueAttributes, ...]
    #: The messages outside quarantine. Each has one entry; a queue and priority can have several entries, in order of serial.
    serials: Iterable[StoredSerials]
    #: The highest serial ever given, plus one.
    next_serial: int
    #: Damaged messages in quarantine: the serial and the reason.
    quarantined: tuple[tuple[int, str], ...] = ()
    #: In the order of their first definition.
    objects: tuple[StoredObject, ...] = ()


class Store(Protocol):
    """Storage of one queue manager, owned by one process."""

    @property
    def durable(self) -> bool:
        """Whether the changes outlive the process. If not, the queue manager skips writes that nobody reads."""
        ...

    def load(self) -> Snapshot:
        """Return the contents. The queue manager calls this once, before the first write."""
        ...

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Make the changes, all or nothing, after the changes of every earlier call.

        The writer's thread calls `done` once, with None when the changes are synced to the disk. `MQIError` 2192 (disk full)
        means that no change was made; `MQIError` 2549 means that the outcome is unknown. After 2549 the store has stopped
        permanently, and the queue manager must stop too. Without `done`, the store writes the changes soon, and syncs them only
        if they count a backout. The call never waits for the disk.
        """
        ...

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Record that a unit of work holds this message, and return the mark. The note survives a crash of the process.

        `harden` makes the note survive a power cut as well. After a crash the loader counts such a delivery as backed out:
        BackoutCount becomes at least `backout_count + 1`. `read_messages` then returns the new BackoutCount.
        """
        ...

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Forget these marks, after every earlier `write` is written and every count of backouts is synced."""
        ...

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        """Return the first of these messages, until their bodies together have `body_bytes_max` bytes; always at least one.

        None stands for a damaged message, which the store quarantines. `BackoutCounted` changes without `done` may still be
        missing from the descriptors. Any thread can call this; it may wait for a sync.
        """
        ...

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        """Yield the identifiers of these messages, in this order, without their bodies; leave out damaged messages."""
        ...

    def close(self) -> None:
        """Write and sync the outstanding changes, and release the folder."""
        ...


class MemoryStore:
    """A store that keeps nothing: for tests, and for a queue manager in memory."""

    durable = False

    def load(self) -> Snapshot:
        """Return an empty store."""
        return Snapshot(queue_manager=None, queues=(), serials=(), next_serial=1)

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Call `done` immediately, because this store makes nothing durable."""
        if done is not None:
            done(None)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Return no mark: nothing survives a crash here."""
        return 0

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Do nothing: there are no marks."""

    def read_messages(self, serials: Sequence[int], body_bytes_max: int) -> Mapping[int, StoredMessage | None]:
        """Return no message. The queue manager never asks, because every message is in memory."""
        return dict.fromkeys(serials)

    def read_identifiers(self, serials: Sequence[int]) -> Iterator[StoredIdentifiers]:
        """Yield nothing. The queue manager never asks, because every message is in memory."""
        return iter(())

    def close(self) -> None:
        """Do nothing: there is no folder."""
