"""The interface below a durable store: a medium writes changes to files, and reports a full disk or a damaged file.

`durable_store` decides when to sync, what to do on a full disk, and when to stop permanently. Only one thread at a time calls a
medium. A message in quarantine stays in the files, but is on no queue. This module has the protocol and its two errors.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from mqflow.embedded.storage.folder import DataFolder
from mqflow.embedded.storage.store import Change, Snapshot, StoredIdentifiers, StoredMessage

__all__ = ("DamagedError", "Medium", "NoRoomError")


class NoRoomError(Exception):
    """The disk has no room for the changes. The medium has made none of them."""


class DamagedError(Exception):
    """The contents of the files differ from those that the medium wrote."""


class Medium(Protocol):
    """The files of one queue manager. After an error other than the two errors of this module, the outcome is unknown."""

    @property
    def path(self) -> Path:
        """The file or folder that an error about damage shows."""
        ...

    def load(self, held: Mapping[int, int], now: float) -> Snapshot:
        """Durably count every delivery in `held` as backed out, and return the contents.

        `held` has the serial numbers of the messages that the last owner left in units of work, each with the BackoutCount of
        its delivery. Damaged messages go to quarantine. Raises `DamagedError` if the damage is not limited to messages, and
        `NoRoomError` if the disk is full.
        """
        ...

    def epoch(self) -> int:
        """Return how many owners the files have had, including the present owner. Each load adds 1."""
        ...

    def make(self, changes: Iterable[Change], *, synced: bool) -> None:
        """Make the changes, all or nothing. With `synced`, they survive a power cut. Raises `NoRoomError`."""

    def read_messages(self, serials: Sequence[int]) -> Generator[StoredMessage | DamagedError, None, None]:
        """Yield these messages in order. In the place of a damaged or missing message, yield the error.

        The caller must close the generator before it uses the medium again.
        """
        ...

    def read_identifiers(self, serial: int) -> StoredIdentifiers:
        """Return the identifiers of a message without reading its body. Raises `DamagedError` if it is damaged or missing."""
        ...

    def set_aside(self, damaged: Sequence[tuple[int, str]], now: float) -> None:
        """Record the damage of these messages, so that they stay in quarantine. Raises `NoRoomError`."""

    def tidy(self) -> None:
        """Free disk space, if that is due. The store calls this after each group. Raises `NoRoomError`."""

    def make_room(self) -> None:
        """Free as much room as possible inside the files, because the disk is full."""

    def shrink(self) -> None:
        """Give the space of the log back to the disk. A full disk can delay this."""

    def needed_bytes(self, added_bytes: int) -> int:
        """Return the most disk space that calls with `added_bytes` can need before the next `tidy` frees disk space."""
        ...

    def reusable_bytes(self) -> int:
        """Return the free bytes inside the files."""
        ...

    def changed_by_others(self) -> str:
        """Return the evidence that another program changed the files, or an empty text."""
        ...

    def backup(self, target: DataFolder) -> None:
        """Copy the durable contents into a folder that has no queue manager. Raises `NoRoomError` and `OSError`."""

    def close(self, *, write: bool) -> None:
        """Close the files. If `write` is false, leave their contents as they are."""
