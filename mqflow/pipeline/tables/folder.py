"""A folder of Parquet tables that change together: a reader sees one state of all tables, even if a writer is killed.

Layout: `CURRENT.json` names the current snapshot, `snapshot-<n>/<table>/*.parquet` are its tables. A writer makes the next
snapshot beside the current one, syncs it, and replaces `CURRENT.json` last. One writer at a time holds `LOCK`. This file knows
files and versions of schemas, but not the meaning of the tables.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from mqflow.folders import folder_at
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.schemas import TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("MIGRATIONS", "Current", "Migrations", "Snapshot", "TableSet", "TableVersionError")

FORMAT: Final = "mqflow-tables"
_KEPT: Final = 2
"""How many snapshots stay: the current one, and the one before for readers that still use it."""

Migrations: TypeAlias = "Mapping[tuple[str, int], Callable[[DataFrame], DataFrame]]"


def _one_attempt_a_row(attempts: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    return attempts.withColumn("attempts", f.lit(1))


MIGRATIONS: Final[Migrations] = {("attempt", 1): _one_attempt_a_row}
"""The functions that make the columns of the next version, by table and version."""


class TableVersionError(PipelineError):
    """A table has a version of a newer mqflow, or a version so old that no migration exists."""


class Current(Struct, frozen=True, kw_only=True):
    """The contents of `CURRENT.json`."""

    format: str = FORMAT
    #: The number of the current snapshot; 0 before the first.
    snapshot: int = 0
    #: The version of each table in the snapshot.
    versions: dict[str, int] = field(default_factory=dict[str, int])
    #: Values that the writer keeps for its next run.
    state: dict[str, int] = field(default_factory=dict[str, int])


class Snapshot(Struct):
    """The next state of the tables, while a writer makes it."""

    path: Path
    tables: Mapping[str, Table]
    versions: dict[str, int] = field(default_factory=dict[str, int])
    state: dict[str, int] = field(default_factory=dict[str, int])

    def write(self, name: str, frame: "DataFrame") -> None:
        """Write a table with exactly its declared columns."""
        table = self.tables[name]
        _as_declared(frame, table).write.mode("overwrite").parquet(str(self.path / name))
        self.versions[name] = table.version

    def read(self, spark: "SparkSession", name: str) -> "DataFrame":
        """Return a table that this snapshot has written."""
        return spark.read.parquet(str(self.path / name))


class TableSet(Struct, frozen=True):
    """The tables of one folder."""

    path: Path
    tables: Mapping[str, Table] = field(default_factory=lambda: TABLES)
    migrations: Migrations = field(default_factory=lambda: MIGRATIONS)

    def current(self) -> Current:
        """Return the current state. Raises `PipelineError` if the folder holds something else."""
        try:
            current = msgspec.json.decode((self.path / "CURRENT.json").read_bytes(), type=Current)
        except FileNotFoundError:
            return Current()
        except msgspec.DecodeError as error:
            raise PipelineError(f"{self.path / 'CURRENT.json'} cannot be read: {error}. Nothing was changed.") from error
        if current.format != FORMAT:
            raise PipelineError(f"{self.path} holds {current.format!r}, not tables of mqflow. Choose another folder.")
        return current

    def read(self, spark: "SparkSession", name: str, current: Current | None = None) -> "DataFrame":
        """Return the current table, in the columns of this mqflow; empty if it was never written.

        Migrates a table of an older version. Raises `TableVersionError` for a newer version.
        """
        current = current or self.current()
        table = self.tables[name]
        found = current.versions.get(name, 0)
        if not found:
            return self.empty(spark, name)
        frame = spark.read.parquet(str(self._folder(current.snapshot) / name))
        return _as_declared(self._migrated(frame, table, found), table)

    def empty(self, spark: "SparkSession", name: str) -> "DataFrame":
        """Return a table without rows."""
        return spark.createDataFrame([], self.tables[name].ddl)

    @contextmanager
    def next(self) -> Iterator[Snapshot]:
        """Make the next state in the block. It becomes current when the block ends, and never if the block raises.

        Raises `PipelineError` if another writer is active.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with _locked(self.path):
            current = self.current()
            made = Snapshot(self._folder(current.snapshot + 1), self.tables)
            shutil.rmtree(made.path, ignore_errors=True)  # the leftovers of a killed writer
            made.path.mkdir()
            yield made
            _sync(made.path)  # closed windows exist only here
            following = Current(snapshot=current.snapshot + 1, versions=made.versions, state=made.state)
            folder_at(self.path).replace("CURRENT.json", msgspec.json.format(msgspec.json.encode(following)) + b"\n")
            for old in range(max(1, current.snapshot - _KEPT), current.snapshot + 2 - _KEPT):
                shutil.rmtree(self._folder(old), ignore_errors=True)

    def _folder(self, snapshot: int) -> Path:
        return self.path / f"snapshot-{snapshot}"

    def _migrated(self, frame: "DataFrame", table: Table, found: int) -> "DataFrame":
        if found > table.version:
            raise TableVersionError(
                f"The table {table.name} in {self.path} is of version {found}; this mqflow knows versions up to "
                f"{table.version}. Nothing was changed. Use the newer mqflow that wrote it."
            )
        for version in range(found, table.version):
            step = self.migrations.get((table.name, version))
            if step is None:
                raise TableVersionError(
                    f"The table {table.name} in {self.path} is of version {found}, and mqflow has no migration from "
                    f"{version} to "
                    f"{table.version}. Make it again from bronze."
                )
            frame = step(frame)
        return frame


def _as_declared(frame: "DataFrame", table: Table) -> "DataFrame":
    """Return the frame in the columns and types of the table. Raises `PipelineError` if the frame lacks a column."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional
    from pyspark.sql.types import StructType  # noqa: PLC0415

    missing = [name for name in table.columns if name not in frame.columns]
    if missing:
        raise PipelineError(f"The table {table.name} lacks {', '.join(missing)}: it has {', '.join(frame.columns)}.")
    declared = cast("StructType", StructType.fromDDL(table.ddl))  # PySpark declares any type; columns make a struct
    return frame.select(*(f.col(one.name).cast(one.dataType).alias(one.name) for one in declared.fields))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the folder, which the end of the process also releases."""
    with (path / "LOCK").open("a") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise PipelineError(
                f"Another process writes the tables in {path}, and two would overwrite each other. Nothing was changed. Run "
                "it again when the other process has ended."
            ) from error
        except OSError:  # a file system without locks: the user must run one writer at a time
            pass
        yield


def _sync(folder: Path) -> None:
    """Sync everything in the folder, and the folder itself."""
    for path in (*folder.rglob("*"), folder, folder.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
