"""Where the embedded queue manager keeps what must survive: the contract between its state machine and its storage.

The state machine says what changed; a store makes a list of changes durable, all of it or nothing, in the order given. Knows no
rule of MQ. `MemoryStore` forgets everything (tests); `sqlite_store` keeps it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes
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
    "StoredMessage",
    "StoredObject",
)


class StoredMessage(Struct, frozen=True, kw_only=True, gc=False):
    """A committed message as it lies in storage."""

    #: Serial number: arrival order over the whole queue manager, never used twice.
    serial: int
    queue: str
    #: The priority it is ordered by (not always the descriptor's: MSGDLVSQ(FIFO) orders all alike).
    order_priority: int
    descriptor: MessageDescriptor
    #: Wall clock at which it expires, in seconds since 1970; None for never.
    expires_at: float | None = None
    put_at: float = 0.0
    #: None where a store leaves large bodies on disk until `read_bodies`.
    body: bytes | None
    body_bytes: int


class MessageAdded(Struct, frozen=True, gc=False):
    """A persistent message was committed onto its queue."""

    message: StoredMessage


class MessageRemoved(Struct, frozen=True, gc=False):
    """A committed get, an expiry, a clear."""

    serial: int


class BackoutCounted(Struct, frozen=True, gc=False):
    """A unit of work that got it was backed out."""

    serial: int
    backout_count: int


class QueueDefined(Struct, frozen=True):
    """A queue was defined or altered."""

    attributes: QueueAttributes


class QueueDeleted(Struct, frozen=True):
    """A queue and everything on it is gone."""

    name: str
    #: What is on it, where that is known: otherwise it has to be looked for among the messages of all queues.
    serials: tuple[int, ...] | None = None


class QueueCleared(Struct, frozen=True):
    """Every message of a queue is gone."""

    name: str
    #: As for one that is deleted.
    serials: tuple[int, ...] | None = None


class QueueManagerDefined(Struct, frozen=True):
    """The queue manager's own attributes changed."""

    attributes: QueueManagerAttributes


class ObjectDefined(Struct, frozen=True):
    """An object that is no queue (a topic, a subscription ...) was defined or altered."""

    #: What it is, in one word; which words there are is `objects`' business.
    kind: str
    #: Unique within its kind.
    name: str
    #: All there is to know about it, encoded.
    attributes: bytes


class ObjectDeleted(Struct, frozen=True):
    """An object that is no queue is gone."""

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
    """An object that is no queue, as it lies in storage."""

    kind: str
    name: str
    attributes: bytes


class Snapshot(Struct, frozen=True):
    """What a store held when it was opened."""

    #: None in a store that was never used.
    queue_manager: QueueManagerAttributes | None
    queues: tuple[QueueAttributes, ...]
    #: In order of serial. BackoutCount already counts units of work that a crash cut off.
    messages: Iterable[StoredMessage]
    #: The highest serial ever given, plus one.
    next_serial: int
    #: Messages that were damaged and set aside: serial and why.
    quarantined: tuple[tuple[int, str], ...] = ()
    #: In the order in which they were first defined.
    objects: tuple[StoredObject, ...] = ()


class Store(Protocol):
    """Storage of one queue manager, owned by one process."""

    @property
    def durable(self) -> bool:
        """Whether anything outlives the process. False lets the state machine skip what nobody would read."""
        ...

    def load(self) -> Snapshot:
        """Return what is there. Called once, before the first write."""
        ...

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Make the changes, all or nothing, after every earlier call's.

        With `done`: it is called once from the writer's thread when they are synced to the disk (None), when they were
        certainly not made (`MQIError` 2192, disk full: refused cleanly), or when that is unknown (`MQIError` 2549; the store
        has stopped for good and so must the queue manager). Without `done`: written soon, and synced only where a backout is
        counted. Never blocks for the disk.
        """
        ...

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """Note, surviving a crash of the process, that a unit of work holds this message; return the mark.

        `harden` makes the note survive a power cut as well. After a crash `load` counts such a delivery as backed out:
        BackoutCount becomes at least `backout_count + 1`.
        """
        ...

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """Forget these marks, after every earlier `write` is written; one that counts a backout is synced by then."""
        ...

    def read_bodies(self, serials: Sequence[int]) -> Mapping[int, bytes | None]:
        """Return the bodies of these messages; None where one is damaged (it is quarantined)."""
        ...

    def close(self) -> None:
        """Write and sync what is outstanding, and let go of the folder."""
        ...


class MemoryStore:
    """Keeps nothing: for tests, and for a queue manager that was asked for in memory."""

    durable = False

    def load(self) -> Snapshot:
        """Return an empty store."""
        return Snapshot(queue_manager=None, queues=(), messages=(), next_serial=1)

    def write(self, changes: Sequence[Change], done: Callable[[Exception | None], None] | None) -> None:
        """Call `done` at once: what is in memory is as durable as it will be."""
        if done is not None:
            done(None)

    def mark_in_flight(self, serial: int, backout_count: int, *, harden: bool) -> int:
        """No mark: nothing survives a crash here."""
        return 0

    def release_in_flight(self, marks: Sequence[int]) -> None:
        """No marks to release."""

    def read_bodies(self, serials: Sequence[int]) -> Mapping[int, bytes | None]:
        """Never asked: every body is in memory."""
        return dict.fromkeys(serials)

    def close(self) -> None:
        """Nothing to let go of."""
