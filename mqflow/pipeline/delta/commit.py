"""Adds files to a Delta table in one version, with the transactions of the program that wrote them.

A transaction is a name and a number in the log of the table. A program that writes a batch again finds its transaction there,
and the batch is not added twice. This file knows delta-rs and folders, but no Spark session.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.folders import Folder, folder_at
from mqflow.pipeline.delta.columns import arrow_schema_of
from mqflow.pipeline.delta.files import WrittenFile, disk_full_error
from mqflow.pipeline.delta.log import delta_table, has_log, sync_version
from mqflow.pipeline.errors import SinkError
from mqflow.pipeline.extras import deltalake
from mqflow.world import SYSTEM_CLOCK

__all__ = ("Added", "Commit", "add_files")

_ATTEMPTS: Final = 10


class Added(Struct, frozen=True, array_like=True):
    """The number of a transaction before and after a commit; None means that the log does not have it."""

    before: int | None
    after: int


class Commit(Struct, frozen=True, kw_only=True):
    """The contents of a commit, apart from its files."""

    uri: str
    #: The columns of the rows, as JSON in the form of Spark.
    schema: str
    partition_by: tuple[str, ...] = ()
    overwrite: bool = False
    #: True if columns that only the rows have are added to the table, and columns that only the table has stay null.
    merge_schema: bool = False
    #: The transactions that the commit sets, by name. The log must have the numbers before the commit, or those after it.
    transactions: Mapping[str, Added] = {}
    #: The name of a program that writes numbered batches; empty for none.
    app_id: str = ""
    batch: int = 0
    #: How many rows the files must have; None if that is unknown.
    rows: int | None = None
    vacuum_hours: int | None = None


def add_files(asked: Commit, files: Sequence[WrittenFile], *, query: str = "") -> None:
    """Add the files to the table in one version, durably, with the transactions; create the table if it does not exist.

    Nothing happens if the log has the transactions or the batch already. Raises `SinkError`, and adds nothing, if the log has
    other transactions, if the table has other columns, or if files are missing. `query` is the identifier of a streaming query.
    If its checkpoint is lost, the query gets another identifier, and its batches begin at 0 again.
    """
    folder = folder_at(asked.uri)
    _check_files(folder, asked, files)
    for attempt in range(_ATTEMPTS):
        table = delta_table(folder) if has_log(folder) else None
        if _is_added(folder, asked, table, query):
            return
        try:
            before = -1 if table is None else table.version()
            with disk_full_error(folder.uri):
                version = _create(folder, asked, files, query) if table is None else _append(asked, table, files, query)
        except deltalake.exceptions.CommitFailedError:  # another program has committed meanwhile: look at its transactions
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        except deltalake.exceptions.DeltaError:
            if table is not None or not has_log(folder):
                raise
            continue  # another program has created the table meanwhile
        _sync(folder, before, version)
        if table is not None and asked.vacuum_hours is not None:
            table.vacuum(asked.vacuum_hours, dry_run=False, enforce_retention_duration=False, full=True)
            table.update_incremental()
            _sync(folder, version, table.version())  # a vacuum commits too
        return


def _create(folder: Folder, asked: Commit, files: Sequence[WrittenFile], query: str) -> int:
    deltalake.transaction.create_table_with_add_actions(
        folder.uri,
        _delta_schema(asked),
        _actions(files),
        "error",
        partition_by=list(asked.partition_by),
        commit_properties=_properties(asked, query),
    )
    return 0


def _append(asked: Commit, table: "deltalake.DeltaTable", files: Sequence[WrittenFile], query: str) -> int:
    schema = _fitted(asked, table)
    table.create_write_transaction(
        [*_actions(files)],
        "overwrite" if asked.overwrite else "append",
        schema,
        list(asked.partition_by),
        commit_properties=_properties(asked, query),
    )
    table.update_incremental()  # after its own commit, delta-rs still has the version before
    return table.version()


def _check_files(folder: Folder, asked: Commit, files: Sequence[WrittenFile]) -> None:
    """Check that the files have all rows, and that the driver finds each file: executors and driver must share a disk."""
    rows = sum(file.rows for file in files)
    if asked.rows is not None and rows != asked.rows:
        raise SinkError(
            f"mqflow_delta: the tasks wrote {rows:,} rows of the {asked.rows:,} for {folder.uri}. Nothing was added. Run it "
            "again; if the numbers stay different, check the source."
        )
    if folder.path is None:
        return
    for file in files:
        path = folder.path / file.path
        if not path.exists() or path.stat().st_size != file.size_bytes:
            raise SinkError(
                f"mqflow_delta: a task wrote {path}, and the driver does not find it: executors and driver have different "
                "disks. Nothing was added. Use a folder that all of them share, or an object store (s3://bucket/prefix)."
            )


def _is_added(folder: Folder, asked: Commit, table: "deltalake.DeltaTable | None", query: str) -> bool:
    """Return whether the log has these files already. Raises `SinkError` if the log has transactions of another program."""
    if asked.app_id and table is not None:
        before = table.transaction_version(asked.app_id)
        if before is not None and before >= asked.batch:
            if query and table.transaction_version(f"{asked.app_id} {query}") is None:
                raise SinkError(
                    f"mqflow_delta: the table {folder.uri} has batches of {asked.app_id} up to {before}, of another query. "
                    f"It got batch {asked.batch} of a new one (checkpoint): the table would count its rows as written. "
                    "Nothing was added. Use the former checkpoint, or give this query another appId."
                )
            return True
    found = {name: None if table is None else table.transaction_version(name) for name in asked.transactions}
    if all(found[name] == moved.before for name, moved in asked.transactions.items()):
        return False
    if all((last := found[name]) is not None and last >= moved.after for name, moved in asked.transactions.items()):
        return True
    name = next(name for name, moved in asked.transactions.items() if found[name] != moved.before)
    raise SinkError(
        f"mqflow_delta: the log of the table {folder.uri} has {found[name]} for {name}, not {asked.transactions[name].before}: "
        "another program writes the same rows. Nothing was added. Run it again when the other program has ended."
    )


def _fitted(asked: Commit, table: "deltalake.DeltaTable") -> "deltalake.Schema":
    """Return the columns of the table after the commit. Raises `SinkError` if the rows have other columns."""
    rows = _delta_schema(asked)
    there = {field.name: field.type for field in table.schema().fields}
    wanted = {field.name: field.type for field in rows.fields}
    odd = {name for name in {*there, *wanted} if there.get(name) != wanted.get(name)}
    if asked.merge_schema:
        odd &= {*there} & {*wanted}
    if odd:
        raise SinkError(
            f"mqflow_delta: the table {table.table_uri} has other columns: {', '.join(sorted(odd))} differ. Nothing was added. "
            "Write to another path, or migrate the table first."
        )
    partitions = tuple(table.metadata().partition_columns)
    if partitions != asked.partition_by:
        raise SinkError(
            f"mqflow_delta: the table {table.table_uri} is partitioned by {', '.join(partitions) or 'nothing'}, not "
            f"{', '.join(asked.partition_by) or 'nothing'}. Nothing was added."
        )
    if new := [field for field in rows.fields if field.name not in there]:
        # A version of its own: if the program ends after this version, the table has new columns without values.
        table.alter.add_columns(new)
    return deltalake.Schema(table.schema().fields)


def _delta_schema(asked: Commit) -> "deltalake.Schema":
    return deltalake.Schema.from_arrow(arrow_schema_of(asked.schema))


def _actions(files: Sequence[WrittenFile]) -> "list[deltalake.transaction.AddAction]":
    now_ms = int(SYSTEM_CLOCK.wall() * 1_000)
    return [
        deltalake.transaction.AddAction(file.path, file.size_bytes, dict(file.partition), now_ms, True, _statistics(file))
        for file in files
    ]


def _statistics(file: WrittenFile) -> str:
    bounds = {} if file.bounds is None else msgspec.to_builtins(file.bounds)
    return msgspec.json.encode({"numRecords": file.rows} | bounds).decode()


def _properties(asked: Commit, query: str) -> "deltalake.CommitProperties":
    numbers = {name: moved.after for name, moved in asked.transactions.items()}
    if asked.app_id:
        numbers |= {asked.app_id: asked.batch} | ({f"{asked.app_id} {query}": asked.batch} if query else {})
    return deltalake.CommitProperties(
        app_transactions=[deltalake.Transaction(name, number) for name, number in numbers.items()] or None
    )


def _sync(folder: Folder, before: int, version: int) -> None:
    if folder.path is not None:
        sync_version(folder.path, before, version)
