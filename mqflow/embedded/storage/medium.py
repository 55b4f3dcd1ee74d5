"""The seam below a durable store: a medium keeps changes in files, and says when the disk is full or a file is damaged.

`durable_store` decides when to sync, what to do on a full disk, and when to stop permanently. A medium only does the work. One
thread at a time calls it. This module has the protocol and its two errors.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.store import Change, Snapshot, StoredIdentifiers, StoredMessage

__all__ = ("DamagedError", "Medium", "NoRoomError")


class NoRoomError(Exception):
    """The disk has no room for the changes. The medium made none of them."""


class DamagedError(Exception):
    """The files differ from the files that the medium wrote."""


class Medium(Protocol):
    """The files of one queue manager. After an error other than the two of this module, the outcome is unknown."""

    @property
    def path(self) -> Path:
        """The file or folder of the contents, for a message about damage."""
        ...

    def load(self, held: Mapping[int, int], now: float) -> Snapshot:
        """Count every delivery in `held` as backed out, durably, and return the contents.

        `held` has the serials that were in units of work when the last owner ended, each with the BackoutCount of its delivery.
        Damaged messages go to quarantine. Raises `DamagedError` if the damage is not limited to messages, and `NoRoomError` if
        the disk is full.
        """
        ...

    def epoch(self) -> int:
        """Return how many owners the files have had, including the present owner. Each load adds one."""
        ...

    def make(self, changes: Iterable[Change], *, synced: bool) -> None:
        """Make the changes, all or nothing; with `synced`, a power cut does not undo them. Raises `NoRoomError`."""
        ...

    def read_messages(self, serials: Sequence[int]) -> Generator[StoredMessage | DamagedError, None, None]:
        """Yield each of these messages in their order; for a damaged or missing message, yield the error instead.

        The caller must close the generator before any other use of the medium.
        """
        ...

    def read_identifiers(self, serial: int) -> StoredIdentifiers:
        """Return the identifiers of a message without its body. Raises `DamagedError` if the message is damaged or gone."""
        ...

    def set_aside(self, damaged: Sequence[tuple[int, str]], now: float) -> None:
        """Record messages with their damage, so that they stay in quarantine. Raises `NoRoomError`."""
        ...

    def tidy(self) -> None:
        """Give room back to the disk, if that is due. The store calls this after each group. Raises `NoRoomError`."""
        ...

    def make_room(self) -> None:
        """Free as much room as possible in the files, because the disk is full."""
        ...

    def shrink(self) -> None:
        """Give the room of the log back to the disk. A full disk can delay this."""
        ...

    def needed_bytes(self, added_bytes: int) -> int:
        """Return the most bytes of the disk that calls with `added_bytes` can need before the medium gives room back."""
        ...

    def reusable_bytes(self) -> int:
        """Return the free bytes within the files."""
        ...

    def changed_by_others(self) -> str:
        """Return the evidence that another program changed the files; an empty text without such evidence."""
        ...

    def backup(self, target: DataFolder) -> None:
        """Copy the durable contents into a folder that has no queue manager. Raises `NoRoomError` and `OSError`."""
        ...

    def close(self, *, write: bool) -> None:
        """Close the files. If `write` is false, leave their contents as they are."""
        ...
