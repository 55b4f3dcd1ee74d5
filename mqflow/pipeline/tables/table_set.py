"""A folder of Delta tables that change together: a reader of mqflow sees one state of all tables, even if a writer is killed.

Layout: `<name>/` is a Delta table. `CURRENT.json` names the last run, and the version of each table at its end.
`runs/<number>.json` keeps this record of each run, so a reader can see the tables as they were. A run commits to the tables
first and replaces `CURRENT.json` last. The next run sets back the tables that a killed run changed. The folder is on a disk
or in an object store. This file knows versions, but not the meaning of the tables.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec import Struct, field

from mqflow.folders import ChangedError, Folder, Version, folder_at
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import compute, f, pa, pc
from mqflow.pipeline.schemas import TABLES, Table
from mqflow.pipeline.tables import delta_writes
from mqflow.pipeline.tables.delta_table import read_delta
from mqflow.world import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

__all__ = ("Current", "Pinned", "Run", "TableSet", "TableVersionError")

FORMAT: Final = "mqflow-delta-tables"
_CURRENT: Final = "CURRENT.json"
_RUNS: Final = "runs"
_OTHER_MESSAGES: Final = frozenset({"duplicate_of", "first_msg_id"})
"""Columns with the MsgId of a message that the row is not about."""


class TableVersionError(PipelineError):
    """A table has a version of a newer mqflow."""


class Pinned(Struct, frozen=True):
    """A table in a state of the folder."""

    #: The version of the Delta table.
    delta: int
    #: The version of its columns, `Table.version`.
    columns: int


class Current(Struct, frozen=True, kw_only=True):
    """The contents of `CURRENT.json`: the record of a run."""

    format: str = FORMAT
    #: The number of the run; 0 before the first. Numbers grow, and killed runs leave gaps.
    run: int = 0
    #: The number of the run before this one; 0 for the first.
    previous: int = 0
    #: The end of the run, in seconds since 1970.
    ended_s: float = 0.0
    tables: dict[str, Pinned] = field(default_factory=dict[str, Pinned])
    #: Values that the writer keeps for its next run.
    state: dict[str, int] = field(default_factory=dict[str, int])


class Run(Struct):
    """The next state of the tables, while a writer makes it. A table that the run does not write stays as it is."""

    table_set: "TableSet"
    number: int
    before: Current
    #: The last version of each table that this run knows. If another process commits, the table has a later version.
    heads: dict[str, delta_writes.TableHead]
    tables: dict[str, Pinned]
    state: dict[str, int] = field(default_factory=dict[str, int])

    def write(self, name: str, frame: "DataFrame") -> None:
        """Replace all rows of a table. The executors write the files."""
        table = self.table_set.tables[name]
        rows = dated(as_declared(frame, table), table)
        self._committed(name, lambda at: delta_writes.write_whole(at, rows, self.number, self.heads.get(name)))

    def write_small(self, name: str, frame: "DataFrame") -> None:
        """Replace all rows of a table whose rows fit into the memory of the driver."""
        table = self.table_set.tables[name]
        rows = dated(as_declared(frame, table), table)
        self._committed(name, lambda at: delta_writes.write_whole_here(at, rows, self.number))

    def replace_dates(self, name: str, frame: "DataFrame", dates: "Collection[date | None]") -> None:
        """Replace the rows of these partitions.

        The frame has the new rows of exactly these partitions, and fits into the memory of the driver.
        """
        rows, head = self.dated(name, as_declared(frame, self.table_set.tables[name])), self.heads[name]
        self._committed(name, lambda at: delta_writes.replace_dates(at, rows, dates, None, self.number, head))

    def replace_windows(self, name: str, frame: "DataFrame", until: datetime) -> None:
        """Replace the windows that end after this time. The frame has the new windows, and fits into the memory of the driver.

        The start of each of these windows is on the day (UTC) of this time, or later.
        """
        since = until.date()
        rows, old = self.dated(name, as_declared(frame, self.table_set.tables[name])), self.rows(name, since=since)
        kept = old.filter(compute.less_equal(compute.struct_field(old["window"], "end"), pa.scalar(until)))
        if not rows.num_rows and kept.num_rows == old.num_rows:
            return
        every, head = pa.concat_tables([kept.select(rows.column_names).cast(rows.schema), rows]), self.heads[name]
        self._committed(name, lambda at: delta_writes.replace_dates(at, every, (), since, self.number, head))

    def replace_rows(self, name: str, frame: "DataFrame", by: "Sequence[str]", gone: "pa.Table | None" = None) -> None:
        """Delete the rows whose columns `by` are in `gone`, and insert the rows of the frame: a MERGE, in one commit.

        `gone` is a result of `dated`, by default the rows of the frame. Null equals null. The frame must fit into the memory
        of the driver.
        """
        rows, head = self.dated(name, as_declared(frame, self.table_set.tables[name])), self.heads[name]
        old = (rows if gone is None else gone).select([*by, delta_writes.DATE])
        self._committed(name, lambda at: delta_writes.replace_rows(at, rows, old, by, self.number, head))

    def dated(self, name: str, frame: "DataFrame") -> "pa.Table":
        """Return the rows of the frame, in the memory of the driver, with the column of the partitions of a table."""
        return delta_writes.collected(dated(frame, self.table_set.tables[name]))

    def compact(self, name: str) -> None:
        """Join the small files of a table; its rows stay."""
        self._committed(name, lambda at: delta_writes.compact(at, self.heads[name]), self.tables[name].columns)

    def erase(self, name: str, keys: "pa.Table") -> None:
        """Delete the rows whose columns are in `keys`, and clear the MsgIds of these rows in the rows of other messages."""
        there = delta_writes.columns_of(self.table_set.folder.folder(name))
        columns = self.tables[name].columns
        if {*keys.column_names} <= there:
            self._committed(name, lambda at: delta_writes.erase(at, keys, self.heads[name]), columns)
        for column in there & _OTHER_MESSAGES:
            self._committed(name, lambda at: delta_writes.clear(at, column, keys["msg_id"], self.heads[name]), columns)  # noqa: B023 - called immediately

    def rows(self, name: str, where: "pc.Expression | None" = None, since: "date | None" = None) -> "pa.Table":
        """Return rows of a table with the changes that this run has made so far, in the memory of the driver.

        They are the rows for which the condition is true, from the partitions from the date `since`.
        """
        found = pc.scalar(True) if where is None else where
        recent = found if since is None else found & (pc.field(delta_writes.DATE) >= pa.scalar(since))
        return delta_writes.rows(self.table_set.folder.folder(name), recent, self.heads[name])

    def read(self, spark: "SparkSession", name: str) -> "DataFrame":
        """Return a table with the changes that this run has made so far."""
        return self.table_set.read(spark, name, Current(run=self.number, tables=self.tables))

    def fits(self, name: str) -> bool:
        """Return whether the table exists with the columns of this mqflow, so that a part of its rows can be replaced."""
        pinned = self.before.tables.get(name)
        return pinned is not None and pinned.columns == self.table_set.tables[name].version

    def _committed(
        self, name: str, commit: "Callable[[Folder], tuple[delta_writes.TableHead, int]]", columns: int | None = None
    ) -> None:
        """Run a function that gets the table's folder, and returns the last version and the number of commits that it made.

        `columns` is the version of the columns; None means the version of this mqflow.
        """
        before = self.heads.get(name)
        with delta_writes.conflicts_as(self.table_set.busy(name)):
            after, commits = commit(self.table_set.folder.folder(name))
        if after.version != (-1 if before is None else before.version) + commits:
            raise self.table_set.busy(name)
        self.heads[name] = after
        self.tables[name] = Pinned(after.version, self.table_set.tables[name].version if columns is None else columns)


class TableSet(Struct, frozen=True):
    """The tables of one folder: a path, or `s3://bucket/prefix`."""

    uri: str | Path
    tables: Mapping[str, Table] = field(default_factory=lambda: TABLES)
    #: The state that readers see instead of the current one.
    pinned: Current | None = None
    wall: Callable[[], float] = SYSTEM_CLOCK.wall

    @property
    def folder(self) -> Folder:
        """The folder of the tables."""
        return folder_at(self.uri)

    def uri_of(self, name: str) -> str:
        """Return the URI of a table, for any reader of Delta tables."""
        return self.folder.uri_of(name)

    def current(self) -> Current:
        """Return the state that readers see. Raises `PipelineError` if the folder holds something else."""
        return self._current()[0] if self.pinned is None else self.pinned

    def runs(self) -> list[Current]:
        """Return the record of each run, in order."""
        last = self._current()[0]
        if not last.run:
            return []
        runs = self.folder.folder(_RUNS)
        found = [_decoded(runs.read(entry.name), runs.uri_of(entry.name)) for entry in runs.files()]
        return [*sorted((each for each in found if each.run < last.run), key=lambda each: each.run), last]

    def as_of(self, when: datetime | int) -> "TableSet":
        """Return the tables as they were at a time (with a time zone), or after the run of this number.

        Before the first run, every table is empty. Raises `PipelineError` for the number of a run that is not kept, and for a
        time at which such a run was current.
        """
        runs = self.runs()
        if isinstance(when, int):
            kept = [each for each in runs if each.run == when]
            if not kept:
                known = ", ".join(str(each.run) for each in runs) or "none"
                raise PipelineError(f"{self.folder.uri} has no run {when}. Its runs: {known}.")
        else:
            kept = [Current(), *(each for each in runs if each.ended_s <= when.astimezone(UTC).timestamp())]
            if len(kept) == 1 and runs and runs[0].previous:
                first = datetime.fromtimestamp(runs[0].ended_s, UTC)
                raise PipelineError(
                    f"{self.folder.uri} has no run as old as {when:%Y-%m-%d %H:%M}: `mqflow spark optimize` or `erase` removed "
                    f"it. The first run that is kept ended at {first:%Y-%m-%d %H:%M:%S} UTC."
                )
        return msgspec.structs.replace(self, pinned=kept[-1])

    def forget_runs(self, before_s: float) -> list[Current]:
        """Delete the records of runs that were no longer current at this time (seconds since 1970). Returns the kept runs."""
        runs = self.runs()
        later = [after.ended_s for after in runs[1:]]
        old = [each for each, replaced_s in zip(runs[:-1], later, strict=True) if replaced_s <= before_s]
        for each in old:
            self.folder.folder(_RUNS).remove(_record_name(each))
        return runs[len(old) :]

    def read(self, spark: "SparkSession", name: str, current: Current | None = None) -> "DataFrame":
        """Return the table in the columns of this mqflow; empty if it was never written.

        A column that an older version lacks is null. Raises `TableVersionError` for a newer version.
        """
        version = self.version_of(name, current)
        if version is None:
            return self.empty(spark, name)
        return read_delta(spark, self.uri_of(name), self.tables[name].ddl, version)

    def version_of(self, name: str, current: Current | None = None) -> int | None:
        """Return the version of the Delta table in the current state; None if the table was never written.

        Raises `TableVersionError` for columns of a newer version.
        """
        table, found = self.tables[name], (current or self.current()).tables.get(name)
        if found is not None and found.columns > table.version:
            raise TableVersionError(
                f"The table {name} in {self.folder.uri} is of version {found.columns}; this mqflow knows versions up to "
                f"{table.version}. Nothing was changed. Use the newer mqflow that wrote it."
            )
        return None if found is None else found.delta

    def empty(self, spark: "SparkSession", name: str) -> "DataFrame":
        """Return a table without rows."""
        return spark.createDataFrame([], self.tables[name].ddl)

    @contextmanager
    def next(self) -> Iterator[Run]:
        """Make the next state in the block. It becomes current when the block ends, and never if the block raises.

        The first step sets each table back to the current state, so that other readers also lose the rows of a killed run.
        Nothing is written if the block changes no table and no value. Raises `PipelineError` if another process writes too.
        """
        folder = self.folder
        folder.make()
        before, version = self._current()
        if before.run:
            self._record(before)  # a kill can come between CURRENT.json and this record
        run = self._begun(before)
        yield run
        if run.tables == before.tables and run.state == before.state:
            return
        for name, pinned in run.tables.items():
            old = before.tables.get(name)
            if old != pinned:  # closed windows exist only here
                delta_writes.sync(folder.folder(name), pinned.delta, None if old is None else old.delta)
        after = Current(run=run.number, previous=before.run, ended_s=self.wall(), tables=run.tables, state=run.state)
        try:
            if version is None:
                folder.create(_CURRENT, _encoded(after))
            else:
                folder.replace(_CURRENT, _encoded(after), version)
        except (ChangedError, FileExistsError) as error:
            raise self.busy(_CURRENT) from error
        self._record(after)

    def busy(self, name: str) -> PipelineError:
        """Return the error for a second writer."""
        return PipelineError(
            f"Another process writes the tables in {self.folder.uri}: it changed {name} during this run. The tables stay at "
            "the state of the other process, and this run changed nothing that mqflow reads. Run it again when the other "
            "process has ended."
        )

    def _begun(self, before: Current) -> Run:
        heads: dict[str, delta_writes.TableHead] = {}
        number = before.run
        for name in self.tables:
            head = delta_writes.head(self.folder.folder(name))
            if head is not None:
                heads[name] = head
                number = max(number, head.run or 0)
        run = Run(table_set=self, number=number + 1, before=before, heads=heads, tables=dict(before.tables))
        for name, pinned in before.tables.items():
            found = heads.get(name)
            if found is None or found.version < pinned.delta:
                raise PipelineError(
                    f"{self.folder.uri_of(_CURRENT)} names version {pinned.delta} of the table {name}, which does not exist. "
                    "Nothing was changed. Bring the folder back as it was, or make the tables again in another folder."
                )
            if found.version > pinned.delta:
                with delta_writes.conflicts_as(self.busy(name)):
                    run.heads[name] = delta_writes.restore(self.folder.folder(name), pinned.delta, run.number, found)
                run.tables[name] = Pinned(run.heads[name].version, pinned.columns)
        return run

    def _current(self) -> tuple[Current, Version | None]:
        folder = self.folder
        try:
            data, version = folder.read_version(_CURRENT)
        except FileNotFoundError:
            return Current(), None
        return _decoded(data, folder.uri_of(_CURRENT)), version

    def _record(self, current: Current) -> None:
        runs = self.folder.folder(_RUNS)
        name = _record_name(current)
        if not runs.exists(name):
            runs.make()
            runs.replace(name, _encoded(current))


def as_declared(frame: "DataFrame", table: Table) -> "DataFrame":
    """Return the frame in the columns and types of the table. Raises `PipelineError` if the frame lacks a column."""
    from pyspark.sql.types import StructType  # noqa: PLC0415

    missing = [name for name in table.columns if name not in frame.columns]
    if missing:
        raise PipelineError(f"The table {table.name} lacks {', '.join(missing)}: it has {', '.join(frame.columns)}.")
    declared = cast("StructType", StructType.fromDDL(table.ddl))  # PySpark declares any type; columns make a struct
    return frame.select(*(f.col(one.name).cast(one.dataType).alias(one.name) for one in declared.fields))


def dated(frame: "DataFrame", table: Table) -> "DataFrame":
    """Return the frame with the column of its partitions: the date (UTC) of the table's time."""
    day = f.date_from_unix_date(f.floor(f.unix_micros(f.col(table.dated)) / delta_writes.DAY_US).cast("int"))
    return frame.withColumn(delta_writes.DATE, f.col(table.dated) if table.dated == "day" else day)


def _record_name(current: Current) -> str:
    return f"{current.run:08}.json"


def _encoded(current: Current) -> bytes:
    return msgspec.json.format(msgspec.json.encode(current))


def _decoded(data: bytes, uri: str) -> Current:
    try:
        found = msgspec.json.decode(data, type=Current)
    except msgspec.DecodeError as error:
        raise PipelineError(f"{uri} cannot be read: {error}. Nothing was changed.") from error
    if found.format == "mqflow-tables":
        raise PipelineError(
            f"{uri} names tables in plain Parquet files, which an earlier mqflow made. Nothing was changed. Move the folder "
            "away, and make the tables again from bronze."
        )
    if found.format != FORMAT:
        raise PipelineError(f"{uri} holds {found.format!r}, not tables of mqflow. Choose another folder.")
    return found
