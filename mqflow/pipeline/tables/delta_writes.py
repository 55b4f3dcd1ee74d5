"""Commits to a Delta table without a jar. Commits of a run also record the number of the run in the log of the table.

The executors write whole tables through `mqflow_delta`; delta-rs replaces a part of the rows on the driver. All tables are
partitioned by a date, so a commit reads and writes only the partitions of the rows that it replaces. This file needs
`mqflow[delta]`. It knows one table at a time, and no run.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from mqflow.folders import Folder
from mqflow.pipeline.delta import upkeep
from mqflow.pipeline.delta.columns import arrow_schema_of
from mqflow.pipeline.delta.log import delta_snapshot, delta_table, has_log, sync_version
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.extras import deltalake, pa, pc
from mqflow.pipeline.schemas import DAY_US

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = (
    "DATE",
    "DAY_US",
    "TableHead",
    "clear",
    "collected",
    "columns_of",
    "compact",
    "conflicts_as",
    "erase",
    "head",
    "replace_dates",
    "replace_rows",
    "restore",
    "rows",
    "sync",
    "write_whole",
    "write_whole_here",
)

DATE: Final = "partition_date"
"""The column by which every table is partitioned: a date (UTC), or null."""
_APP: Final = "mqflow-tables"
"""The application of the transactions; its version is the number of the run."""
_NEW: Final = "mqflow_new"
"""The column that distinguishes new rows from keys of old rows, in the source of a MERGE."""


class TableHead(Struct, frozen=True):
    """A version of a table, and the number of the last run that had written the table by then."""

    version: int
    #: None if no run of mqflow had written the table by then.
    run: int | None


def head(table: Folder) -> TableHead | None:
    """Return the last version of the table; None if there is no table. Raises `PipelineError` if deltalake is missing."""
    return _head_of(delta_table(table)) if has_log(table) else None


def rows(table: Folder, where: "pc.Expression", before: TableHead) -> "pa.Table":
    """Return the rows of this version for which the condition is true, in the memory of the driver."""
    return pa.table(delta_table(table, before.version).to_pyarrow_dataset().to_table(filter=where))


def restore(table: Folder, version: int, run: int, before: TableHead) -> TableHead:
    """Set the rows of the table back to a version; return the new version, which has the same rows."""
    found = delta_table(table, before.version)
    found.restore(version, commit_properties=_properties(run))
    return _head_of(found)


def write_whole(table: Folder, rows: "DataFrame", run: int, before: TableHead | None) -> tuple[TableHead, int]:
    """Replace all rows through the executors. Returns the last version and the number of commits."""
    commits = 1
    if before is not None and _columns_differ(table, rows):
        _overwrite(table, _arrow_schema(rows).empty_table(), run)
        before, commits = TableHead(before.version + 1, run), 2
    transactions = {_APP: (None if before is None else before.run, run)}
    # Each task gets whole partitions, so each partition has few files.
    writer = rows.hint("rebalance", DATE).write.format("mqflow_delta").mode("overwrite").option("partitionBy", DATE)
    if commits == 1:  # otherwise the first commit has the transaction of this run
        writer = writer.option("transactions", msgspec.json.encode(transactions).decode())
    writer.save(table.uri)
    return _head_of(delta_table(table)), commits


def write_whole_here(table: Folder, rows: "DataFrame", run: int) -> tuple[TableHead, int]:
    """Replace all rows on the driver. Returns the last version and the number of commits."""
    _overwrite(table, collected(rows), run)
    return _head_of(delta_table(table)), 1


def replace_dates(
    table: Folder, rows: "pa.Table", dates: Collection[date | None], since: date | None, run: int, before: TableHead
) -> tuple[TableHead, int]:
    """Replace the rows of these dates and, if `since` is given, of all later dates.

    Returns the last version and the number of commits.
    """
    parts = [*_on(DATE, dates), *([f"{DATE} >= '{since.isoformat()}'"] if since is not None else [])]
    if not parts:
        return before, 0
    found = delta_table(table, before.version)
    deltalake.write_deltalake(found, rows, mode="overwrite", predicate=" OR ".join(parts), commit_properties=_properties(run))
    return _head_of(found), found.version() - before.version


def replace_rows(
    table: Folder, new: "pa.Table", old: "pa.Table", by: Sequence[str], run: int, before: TableHead
) -> tuple[TableHead, int]:
    """Delete the rows whose columns `by` are in `old`, and insert the rows `new`.

    Returns the last version and the number of commits.
    """
    if not new.num_rows and not old.num_rows:
        return before, 0
    source = pa.concat_tables(
        [new.append_column(_NEW, pa.repeat(True, new.num_rows)), old.append_column(_NEW, pa.repeat(False, old.num_rows))],
        promote_options="default",
    )
    found = delta_table(table, before.version)
    known = _on(f"t.{DATE}", set(old[DATE].unique().to_pylist()))
    same = [f"(t.{name} IS NOT DISTINCT FROM s.{name})" for name in by]
    merge = found.merge(
        source,
        " AND ".join([f"s.{_NEW} = false", f"({' OR '.join(known) or 'false'})", *same]),
        source_alias="s",
        target_alias="t",
        commit_properties=_properties(run),
    )
    inserted = {name: f"s.{name}" for name in new.column_names}
    merge.when_matched_delete().when_not_matched_insert(inserted, predicate=f"s.{_NEW} = true").execute()
    return _head_of(found), found.version() - before.version  # without a changed row there is no commit


def compact(table: Folder, before: TableHead) -> tuple[TableHead, int]:
    """Join small files of the table. Returns the last version and the number of commits."""
    found = delta_table(table, before.version)
    commits = upkeep.compact(found)
    return _head_of(found), commits


def columns_of(table: Folder) -> set[str]:
    """Return the names of the columns of the last version."""
    return {field.name for field in delta_table(table).schema().fields}


def erase(table: Folder, keys: "pa.Table", before: TableHead) -> tuple[TableHead, int]:
    """Delete the rows whose columns are in `keys`; null equals null. Returns the last version and the number of commits."""
    found = delta_table(table, before.version)
    columns = keys.column_names
    source = keys.group_by(columns).aggregate([])  # a row of the table must match one row
    same = " AND ".join(f"(t.{name} IS NOT DISTINCT FROM s.{name})" for name in columns)
    found.merge(source, same, source_alias="s", target_alias="t").when_matched_delete().execute()
    return _head_of(found), found.version() - before.version


def clear(table: Folder, column: str, values: "pa.Array", before: TableHead) -> tuple[TableHead, int]:
    """Set the column to null in the rows that have one of these values. Returns the last version and the number of commits."""
    found = delta_table(table, before.version)
    merge = found.merge(pa.table({"value": values.unique()}), f"t.{column} = s.value", source_alias="s", target_alias="t")
    merge.when_matched_update({column: "NULL"}).execute()
    return _head_of(found), found.version() - before.version


@contextmanager
def conflicts_as(error: PipelineError) -> Iterator[None]:
    """Raise this error if another process changes the table at the same time."""
    try:
        yield
    except deltalake.exceptions.CommitFailedError as conflict:
        raise error from conflict


def sync(table: Folder, version: int, since: int | None) -> None:
    """Sync a version to the disk, with its files that are not in the version `since`: delta-rs does not do this.

    In an object store, the version and its files are durable already.
    """
    if table.path is None:
        return
    old = set() if since is None else {file.path for file in delta_snapshot(table, since).files}
    new = [table.path / file.path for file in delta_snapshot(table, version).files if file.path not in old]
    files = (*new, *{file.parent for file in new}, table.path.parent)
    sync_version(table.path, -1 if since is None else since, version, files)


def _head_of(table: "deltalake.DeltaTable") -> TableHead:
    return TableHead(table.version(), table.transaction_version(_APP))


def _columns_differ(table: Folder, rows: "DataFrame") -> bool:
    wanted = {field.name: field.type for field in deltalake.Schema.from_arrow(_arrow_schema(rows)).fields}
    return wanted != {field.name: field.type for field in delta_table(table).schema().fields}


def _overwrite(table: Folder, rows: "pa.Table", run: int) -> None:
    deltalake.write_deltalake(
        table.uri, rows, mode="overwrite", schema_mode="overwrite", partition_by=[DATE], commit_properties=_properties(run)
    )


def _properties(run: int) -> "deltalake.CommitProperties":
    return deltalake.CommitProperties(app_transactions=[deltalake.Transaction(_APP, run)])


def _arrow_schema(rows: "DataFrame") -> "pa.Schema":
    """Return the schema of the rows; every column can be null, as in the log of the table."""
    return pa.schema([field.with_nullable(True) for field in arrow_schema_of(rows.schema.json())])


def collected(rows: "DataFrame") -> "pa.Table":
    """Return the rows in the memory of the driver."""
    return rows.toArrow().cast(_arrow_schema(rows))


def _on(column: str, dates: Collection[date | None]) -> list[str]:
    """Return one or two conditions in SQL: on the days, and on null. One of them is true for a row with one of these dates."""
    days = ", ".join(f"'{day.isoformat()}'" for day in sorted(day for day in dates if day is not None))
    return [*([f"{column} IN ({days})"] if days else []), *([f"{column} IS NULL"] if None in dates else [])]
