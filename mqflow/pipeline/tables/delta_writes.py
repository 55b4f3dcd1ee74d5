"""Commits to a Delta table without a jar. Each has a transaction with the number of its run.

The executors write whole tables through `mqflow_delta`; delta-rs replaces a part of the rows on the driver. All tables are
partitioned by a date, so a commit reads and writes only the partitions of the rows that it replaces. It needs `mqflow[delta]`.
This file knows one table at a time, and no run.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.schemas import DAY_US

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable
    from pyspark.sql import DataFrame

__all__ = (
    "DATE",
    "DAY_US",
    "Head",
    "conflicts_as",
    "head",
    "replace_dates",
    "replace_rows",
    "restore",
    "write_whole",
    "write_whole_here",
)

DATE: Final = "partition_date"
"""The column by which every table is partitioned: a date (UTC), or null."""
_APP: Final = "mqflow-tables"
"""The application of the transactions; its version is the number of the run."""
_NEW: Final = "mqflow_new"
"""The column of the source of a MERGE that tells new rows from keys of old rows."""


class Head(Struct, frozen=True):
    """The last version of a table, and the last run that wrote it."""

    version: int
    run: int


def head(uri: str) -> Head | None:
    """Return the last version of the table; None if there is no table. Raises `PipelineError` if deltalake is missing."""
    table = _table(uri)
    return None if table is None else Head(table.version(), table.transaction_version(_APP) or 0)


def restore(uri: str, version: int, before: int) -> int:
    """Set the table back to a version; return the number of the new version, which has the same rows."""
    table = _at(uri, before)
    table.restore(version)
    return table.version()


def write_whole(uri: str, rows: "DataFrame", run: int, before: int | None) -> tuple[int, int]:
    """Replace all rows through the executors. Returns the last version and the number of commits."""
    commits = 0
    if before is not None and _columns_differ(uri, rows):
        _overwrite(uri, _arrow_schema(rows).empty_table(), _properties(run))
        commits = 1
        mode = "append"  # the transaction of this run is in the first commit
    else:
        mode = "overwrite"
    # Each task gets whole partitions, so each partition has few files.
    writer = rows.hint("rebalance", DATE).write.format("mqflow_delta").mode(mode).option("partitionBy", DATE)
    if not commits:
        writer = writer.option("appId", _APP).option("batch", str(run))
    writer.save(uri)
    return _last(uri), commits + 1


def write_whole_here(uri: str, rows: "DataFrame", run: int) -> tuple[int, int]:
    """Replace all rows on the driver. Returns the last version and the number of commits."""
    _overwrite(uri, _arrow(rows), _properties(run))
    return _last(uri), 1


def replace_dates(
    uri: str, rows: "DataFrame", dates: Collection[date | None], since: date | None, run: int, before: int
) -> tuple[int, int]:
    """Replace the rows of these dates and, if `since` is given, of all later dates. Returns as `write_whole` does."""
    from deltalake import write_deltalake  # noqa: PLC0415 - optional

    parts = [*_on(DATE, dates), *([f"{DATE} >= '{since.isoformat()}'"] if since is not None else [])]
    if not parts:
        return before, 0
    table = _at(uri, before)
    write_deltalake(table, _arrow(rows), mode="overwrite", predicate=" OR ".join(parts), commit_properties=_properties(run))
    return table.version(), table.version() - before


def replace_rows(uri: str, rows: "DataFrame", gone: "DataFrame", by: Sequence[str], run: int, before: int) -> tuple[int, int]:
    """Delete the rows whose columns `by` are in `gone`, and insert the rows. Returns as `write_whole` does."""
    import pyarrow as pa  # noqa: PLC0415 - loaded by writers only

    new, old = _arrow(rows), _arrow(gone)
    if not new.num_rows and not old.num_rows:
        return before, 0
    source = pa.concat_tables(
        [new.append_column(_NEW, pa.repeat(True, new.num_rows)), old.append_column(_NEW, pa.repeat(False, old.num_rows))],
        promote_options="default",
    )
    table = _at(uri, before)
    known = _on(f"t.{DATE}", set(old[DATE].unique().to_pylist()))
    same = [f"(t.{name} IS NOT DISTINCT FROM s.{name})" for name in by]
    merge = table.merge(
        source,
        " AND ".join([f"s.{_NEW} = false", f"({' OR '.join(known) or 'false'})", *same]),
        source_alias="s",
        target_alias="t",
        commit_properties=_properties(run),
    )
    inserted = {name: f"s.{name}" for name in new.column_names}
    merge.when_matched_delete().when_not_matched_insert(inserted, predicate=f"s.{_NEW} = true").execute()
    return table.version(), table.version() - before  # without a changed row there is no commit


@contextmanager
def conflicts_as(error: PipelineError) -> Iterator[None]:
    """Raise this error if another process changes the table at the same time."""
    from deltalake.exceptions import CommitFailedError  # noqa: PLC0415 - optional

    try:
        yield
    except CommitFailedError as conflict:
        raise error from conflict


def _table(uri: str) -> "DeltaTable | None":
    if find_spec("deltalake") is None:
        raise PipelineError(f"The tables in {uri} are Delta tables, and they need deltalake: pip install 'mqflow[delta]'.")
    from deltalake import DeltaTable  # noqa: PLC0415 - optional

    return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None


def _at(uri: str, version: int) -> "DeltaTable":
    """Return the table at this version; a commit fails if there is a later version that conflicts with it."""
    from deltalake import DeltaTable  # noqa: PLC0415 - optional

    return DeltaTable(uri, version=version)


def _last(uri: str) -> int:
    found = head(uri)
    return -1 if found is None else found.version


def _columns_differ(uri: str, rows: "DataFrame") -> bool:
    from deltalake import Schema  # noqa: PLC0415 - optional

    table = _table(uri)
    wanted = {field.name: field.type for field in Schema.from_arrow(_arrow_schema(rows)).fields}
    return table is not None and wanted != {field.name: field.type for field in table.schema().fields}


def _overwrite(uri: str, rows: "pa.Table", properties: "CommitProperties") -> None:
    from deltalake import write_deltalake  # noqa: PLC0415 - optional

    write_deltalake(uri, rows, mode="overwrite", schema_mode="overwrite", partition_by=[DATE], commit_properties=properties)


def _properties(run: int) -> "CommitProperties":
    from deltalake import CommitProperties, Transaction  # noqa: PLC0415 - optional

    return CommitProperties(app_transactions=[Transaction(_APP, run)])


def _arrow_schema(rows: "DataFrame") -> "pa.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - private to Spark, as in the sink

    return to_arrow_schema(rows.schema, timezone="UTC")


def _arrow(rows: "DataFrame") -> "pa.Table":
    """Return the rows on the driver; every column can be null."""
    import pyarrow as pa  # noqa: PLC0415 - loaded by writers only

    schema = pa.schema([field.with_nullable(True) for field in _arrow_schema(rows)])
    return rows.toArrow().cast(schema)


def _on(column: str, dates: Collection[date | None]) -> list[str]:
    """Return conditions in SQL, of which one is true for these dates."""
    days = ", ".join(f"'{day.isoformat()}'" for day in sorted(day for day in dates if day is not None))
    return [*([f"{column} IN ({days})"] if days else []), *([f"{column} IS NULL"] if None in dates else [])]
