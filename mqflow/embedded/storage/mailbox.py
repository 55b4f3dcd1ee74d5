"""What a store's writer thread is asked for, and what each call weighs.

Records only; what is done about them is the store's.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from mqflow.embedded.storage.store import BackoutCounted, Change, MessageAdded, MessageRemoved, ObjectDefined

__all__ = ("Call", "Close", "Done", "Item", "Quarantine", "Release")

# What a change is taken to need in the log beside its body.
_CHANGE_BYTES: Final = 1024

Done = Callable[[Exception | None], None]


class Call(Struct, frozen=True, gc=False, eq=False):
    """Changes to make, all or nothing."""

    changes: Sequence[Change]
    done: Done | None

    @property
    def added_bytes(self) -> int:
        """What the database may grow by; 0 for a call that only takes away."""
        return sum(_added_bytes(change) for change in self.changes)

    @property
    def log_bytes(self) -> int:
        """What the log may grow by."""
        return self.added_bytes + _CHANGE_BYTES * len(self.changes)

    @property
    def defines_or_adds(self) -> bool:
        """Whether it does anything but take messages away and count their backouts."""
        return not all(isinstance(change, MessageRemoved | BackoutCounted) for change in self.changes)

    @property
    def counts_backouts(self) -> bool:
        """Whether it changes the backout count of a message."""
        return any(isinstance(change, BackoutCounted) for change in self.changes)


class Release(Struct, frozen=True, gc=False):
    """In-flight marks to forget after what came before."""

    marks: Sequence[int]


class Quarantine(Struct, frozen=True, gc=False):
    """A message whose body turned out to be damaged."""

    serial: int
    why: str


class Close(Struct, frozen=True, gc=False):
    """Nothing comes after this."""

    #: False where the file could not be loaded: what is in it stays as it is.
    write: bool


Item = Call | Release | Quarantine | Close


def _added_bytes(change: Change) -> int:
    if isinstance(change, MessageAdded):
        return change.message.body_bytes + _CHANGE_BYTES
    return len(change.attributes) + _CHANGE_BYTES if isinstance(change, ObjectDefined) else 0
