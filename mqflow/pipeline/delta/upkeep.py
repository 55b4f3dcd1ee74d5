"""Keeps one Delta table small, without a jar: joins small files, deletes files of old versions, and writes checkpoints.

No function changes the rows of the table. This file knows one table, and no run.
"""

from collections.abc import Collection
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from mqflow.folders import Folder
from mqflow.pipeline.delta.log import LOG, delta_snapshot, delta_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ("Size", "compact", "remove_old_files", "size_of", "write_checkpoint")

_LAST_CHECKPOINT: Final = "_last_checkpoint"
_HOUR: Final = timedelta(hours=1)


class Size(Struct, frozen=True):
    """The number of files, and their bytes."""

    files: int
    bytes: int


class _Checkpoint(Struct, frozen=True):
    version: int = -1


def size_of(table: Folder) -> Size:
    """Return the size of the last version."""
    files = delta_snapshot(table).files
    return Size(len(files), sum(file.size_bytes for file in files))


def compact(table: "DeltaTable") -> int:
    """Join the small files of each partition, in one commit. Returns the number of commits: 0 if there is nothing to join."""
    done = table.optimize.compact()
    return 1 if done["numFilesAdded"] or done["numFilesRemoved"] else 0


def remove_old_files(table: Folder, age: timedelta, keep_versions: Collection[int] = ()) -> Size:
    """Delete the files that are in no version younger than `age` and in none of `keep_versions`. Returns their size.

    Files that a killed program left are deleted at the same age. The log gets no commit, so the last version stays the last.
    """
    found, first = delta_table(table), _first_version(table)
    keep = sorted(version for version in keep_versions if version >= first)
    # A dry run: it returns the same list. A real run adds a commit, and lists files again that are deleted already.
    old = found.vacuum(-(-age // _HOUR), dry_run=True, enforce_retention_duration=False, full=True, keep_versions=keep or None)
    last = {file.path for file in delta_snapshot(table, found.version()).files}
    names: dict[str, set[str]] = {}
    for path in old:
        parent, _, name = path.rpartition("/")
        names.setdefault(parent, set()).add(name)
    files = size = 0
    for parent, those in names.items():
        folder = reduce(lambda inside, part: inside.folder(part), parent.split("/") if parent else [], table)
        for entry in folder.files():
            path = f"{parent}/{entry.name}" if parent else entry.name
            if entry.name in those and path not in last:
                folder.remove(entry.name)
                files, size = files + 1, size + entry.size_bytes
    return Size(files, size)


def write_checkpoint(table: Folder) -> bool:
    """Write a checkpoint of the last version, so that readers read no earlier log entries.

    Returns False, and writes nothing, if the last version has a checkpoint already.
    """
    found, log = delta_table(table), table.folder(LOG)
    if log.exists(_LAST_CHECKPOINT):
        last = msgspec.json.decode(log.read(_LAST_CHECKPOINT), type=_Checkpoint)
        if last.version == found.version():
            return False
    found.create_checkpoint()
    return True


def _first_version(table: Folder) -> int:
    """Return the first version that readers can read: Delta engines delete entries of logs after thirty days."""
    names = [entry.name for entry in table.folder(LOG).files()]
    return 0 if f"{0:020}.json" in names else min((int(name[:20]) for name in names if ".checkpoint." in name), default=0)
