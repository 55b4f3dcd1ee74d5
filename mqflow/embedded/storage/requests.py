"""The requests to the writer thread of a store, and the size of each call.

This file has records only. The store carries out the requests.
"""

from collections.abc import Callable, Sequence
from typing import Final, assert_never

from msgspec import Struct

from mqflow.embedded.storage import store

__all__ = ("Call", "Close", "Done", "Item", "Quarantine", "Release", "Subject", "log_bytes")

# The estimated bytes of a change in the log, without the body of its message.
_CHANGE_BYTES: Final = 1024

Done = Callable[[Exception | None], None]

Subject = tuple[str, str]
"""A kind of object (empty for a queue), and a name."""


class Call(Struct, frozen=True, gc=False, eq=False):
    """Changes to make, all or nothing."""

    changes: Sequence[store.Change]
    done: Done | None

    @property
    def added_bytes(self) -> int:
        """The most bytes that the call adds to the database; 0 for a call that only removes messages."""
        return sum([_added_bytes(change) for change in self.changes])

    @property
    def subjects(self) -> frozenset[Subject]:
        """The objects that the call defines or deletes, or to which it adds messages. Changes to one object stay in order."""
        return frozenset(filter(None, map(_subject, self.changes)))

    @property
    def counts_backouts(self) -> bool:
        """True if the call changes the backout count of a message."""
        return any(isinstance(change, store.BackoutCounted) for change in self.changes)


class Release(Struct, frozen=True, gc=False):
    """In-flight marks to release after all earlier calls."""

    marks: Sequence[int]


class Quarantine(Struct, frozen=True, gc=False):
    """A damaged message, to be recorded in quarantine."""

    serial: int
    why: str


class Close(Struct, frozen=True, gc=False):
    """The last request, which closes the store."""

    #: False after a failed load: the file must not change.
    write: bool


Item = Call | Release | Quarantine | Close


def log_bytes(changes: Sequence[store.Change]) -> int:
    """Return the most bytes that these changes add to a log."""
    return sum(map(_added_bytes, changes)) + _CHANGE_BYTES * len(changes)


def _subject(change: store.Change) -> Subject | None:
    match change:
        case store.MessageAdded(message):
            return "", message.queue
        case store.QueueDefined(attributes):
            return "", attributes.name
        case store.QueueDeleted(name) | store.QueueCleared(name):
            return "", name
        case store.QueueManagerDefined():
            return "queue manager", ""
        case store.ObjectDefined(kind, name) | store.ObjectDeleted(kind, name):
            return kind, name
        case store.MessageRemoved() | store.BackoutCounted():
            return None
        case _:
            assert_never(change)


def _added_bytes(change: store.Change) -> int:
    if isinstance(change, store.MessageAdded):
        return change.message.body_bytes + _CHANGE_BYTES
    return len(change.attributes) + _CHANGE_BYTES if isinstance(change, store.ObjectDefined) else 0
