"""The log of a Delta table: its files, columns and transactions at one version, on a disk or in an object store.

This file needs `mqflow[delta]`, and loads deltalake on request. It knows neither Spark nor the meaning of a table.
"""

import os
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from mqflow.folders import Folder
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import deltalake, pa

__all__ = (
    "LOG",
    "DeltaFile",
    "DeltaSnapshot",
    "check_path",
    "delta_snapshot",
    "delta_table",
    "has_log",
    "maxima_of",
    "sync_version",
)

LOG: Final = "_delta_log"
"""The folder of the log in the folder of a table."""
#: The features of a table whose right rows cannot be read from its files alone.
_UNREADABLE: Final = frozenset({"deletionVectors", "columnMapping"})

#: deltalake 1.x reads these as escapes or separators, or ends with a panic.
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]^|\x00-\x1f]")

Value: TypeAlias = "str | int | bool | date | datetime | None"


class DeltaFile(Struct, frozen=True):
    """A file of a version."""

    #: The path in the folder of the table.
    path: str
    size_bytes: int
    #: The value of each partition column, which the file itself does not have.
    partition: dict[str, Value]


class DeltaSnapshot(Struct, frozen=True, kw_only=True):
    """One version of a table."""

    version: int
    #: The columns, as JSON in the form of Delta, which is also the form of Spark.
    schema: str
    partitions: tuple[str, ...]
    files: tuple[DeltaFile, ...]


def check_path(folder: Folder) -> None:
    """Raise `PipelineError` for a path that deltalake reads as the path of another folder."""
    if misread := _MISREAD.search(folder.uri):
        raise PipelineError(
            f"{folder.uri}: deltalake cannot use a folder with {misread[0]!r} in its path. Nothing was changed. Use "
            "another folder."
        )


def has_log(folder: Folder) -> bool:
    """Return whether the folder has a Delta table. Raises like `check_path`, and `OSError` if the store does not answer."""
    check_path(folder)
    return any(entry.name.endswith(".json") for entry in folder.folder(LOG).files())


def delta_table(folder: Folder, version: int | None = None) -> "deltalake.DeltaTable":
    """Return the table at this version, by default the last one.

    Raises `PipelineError` if deltalake is missing, and if there is no such table or version.
    """
    if find_spec("deltalake") is None:
        raise PipelineError(f"{folder.uri} is a Delta table, and needs deltalake: pip install 'mqflow[delta]'.")
    if not has_log(folder):
        raise PipelineError(f"There is no Delta table {folder.uri}.")
    try:
        return deltalake.DeltaTable(folder.uri, version=version)
    except deltalake.exceptions.DeltaError as error:
        which = "" if version is None else f" at version {version}"
        raise PipelineError(f"The Delta table {folder.uri} cannot be read{which}: {error}") from error


def delta_snapshot(folder: Folder, version: int | None = None) -> DeltaSnapshot:
    """Return the version of the table, by default the last one.

    Raises the errors of `delta_table`, and `PipelineError` for a table whose rows cannot be read from its files alone.
    """
    table = delta_table(folder, version)
    if odd := _UNREADABLE & set(table.protocol().reader_features or ()):
        raise PipelineError(
            f"{folder.uri} uses {', '.join(sorted(odd))}: its files alone do not have its rows. Read it with delta-spark, or "
            "write it again without."
        )
    names = tuple(table.metadata().partition_columns)
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = tuple(
        # The log has paths as parts of a URI.
        DeltaFile(unquote(action["path"]), action["size_bytes"], {name: _value(action[f"partition.{name}"]) for name in names})
        for action in actions
    )
    return DeltaSnapshot(version=table.version(), schema=table.schema().to_json(), partitions=names, files=files)


def maxima_of(table: "deltalake.DeltaTable", column: str, partition: str) -> dict[Value, int] | None:
    """Return the largest value of a column for each value of a partition column, from the statistics in the log.

    None if the log lacks the value of a file.
    """
    actions, name, by = pa.table(table.get_add_actions(flatten=True)), f"max.{column}", f"partition.{partition}"
    if not actions.num_rows:
        return {}
    if not {name, by} <= {*actions.column_names} or actions[name].null_count:
        return None
    found = actions.group_by(by).aggregate([(name, "max")])
    return dict(zip(found[by].to_pylist(), found[f"{name}_max"].to_pylist(), strict=True))


def _value(said: Value) -> Value:
    return said.replace(tzinfo=UTC) if isinstance(said, datetime) and said.tzinfo is None else said


def sync_version(root: Path, before: int, version: int, files: Iterable[Path] = ()) -> None:
    """Sync the files, and then the log entries after `before` up to the version, to the disk: delta-rs does not do this."""
    log = root / LOG
    entries = [log / f"{number:020d}.json" for number in range(before + 1, version + 1)]
    for path in (*files, *entries, log, root):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
