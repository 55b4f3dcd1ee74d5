"""The head record of each lane, `heads/<lane>.json`. It names the lane's last segment, and is not in the lane's folder.

A verification uses the record to find the loss of the last segments, or of the whole lane. The lander writes the record after
it has published a segment. On a disk the record is not synced, because a record that is older than its lane is no damage. This
file knows folders, but no segment.
"""

import os
from contextlib import suppress

import msgspec
from msgspec import Struct

from mqflow.folders import Folder
from mqflow.journal.segment_chain import Tip

__all__ = ("Head", "create_head", "heads", "read_head", "write_head")

_FOLDER = "heads"
_END = ".json"


class Head(Struct, frozen=True, kw_only=True):
    """The contents of a head record."""

    lane: str
    number: int = 0
    rows: int = 0
    crc: int = 0

    @property
    def tip(self) -> Tip:
        """The last segment."""
        return Tip(number=self.number, rows=self.rows, crc=self.crc)


def create_head(journal: Folder, name: str, lane: str) -> None:
    """Create the record of a lane without segments, durably, unless it exists. `name` is the name of the lane's folder."""
    folder = journal.folder(_FOLDER)
    folder.make()
    with suppress(FileExistsError):
        folder.create(f"{name}{_END}", msgspec.json.encode(Head(lane=lane)))


def write_head(journal: Folder, name: str, head: Head) -> None:
    """Replace the record of a lane, without a sync. If this fails, the older record stays: the segment is published anyway."""
    folder, data = journal.folder(_FOLDER), msgspec.json.encode(head)
    with suppress(OSError):
        if folder.path is None:
            folder.replace(f"{name}{_END}", data)
            return
        beside = folder.path / f".{name}.{os.getpid()}"
        beside.write_bytes(data)
        os.replace(beside, folder.path / f"{name}{_END}")  # noqa: PTH105 - as `Folder.replace`, which would sync


def read_head(journal: Folder, name: str) -> Head | None:
    """Return the record of a lane; None if the lane has no record, or a record that cannot be read."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(journal.folder(_FOLDER).read(f"{name}{_END}"), type=Head)
    return None


def heads(journal: Folder) -> dict[str, Head | None]:
    """Return the records by the lanes' folders; None for a record that cannot be read."""
    names = [file.name.removesuffix(_END) for file in journal.folder(_FOLDER).files() if file.name.endswith(_END)]
    return {name: read_head(journal, name) for name in names}
