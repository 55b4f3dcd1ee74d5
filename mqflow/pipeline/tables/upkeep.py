"""Keeps bronze, silver and gold small: joins small files, and deletes runs and versions that are older than the retention.

This file needs deltalake, but no Spark session. No step changes a row. A kill at any moment leaves tables that every reader can
read; the next call does the rest.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.folders import Folder, folder_at
from mqflow.journal.schemas import Kind
from mqflow.pipeline.delta.log import has_log
from mqflow.pipeline.delta.upkeep import Size, remove_old_files, size_of, write_checkpoint
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.tables import delta_writes
from mqflow.pipeline.tables.bronze import check_format, table_folder
from mqflow.pipeline.tables.table_set import TableSet
from mqflow.world import SYSTEM_CLOCK

__all__ = ("SETS", "Upkept", "bronze_tables", "optimize")

SETS: Final = ("silver", "gold")


class Upkept(Struct, frozen=True, kw_only=True):
    """The result for one table."""

    #: The name, such as `silver/message`.
    table: str
    #: The last version, before and after.
    before: Size
    after: Size
    #: The deleted files.
    removed: Size


def optimize(tables: str | Path, keep: timedelta, *, wall: Callable[[], float] = SYSTEM_CLOCK.wall) -> Iterator[Upkept]:
    """Join the small files of every table, delete what is older than `keep`, write checkpoints; yield each table when done.

    Every state of the tables in the time `keep` stays readable. Raises `PipelineError` if another process writes a table at the
    same time, and the errors of `delta_table`.
    """
    for name, table in bronze_tables(tables):
        check_format(table)
        before = size_of(table)
        busy = PipelineError(
            f"Another process changed {table.uri} at the same time. No file was joined, and no row is lost. Run it again."
        )
        head = delta_writes.head(table)
        if head is not None:
            with delta_writes.conflicts_as(busy):
                after, commits = delta_writes.compact(table, head)
            if commits:
                delta_writes.sync(table, after.version, head.version)
        yield _finished(name, table, before, keep)
    for name in SETS:
        yield from _set(name, TableSet(folder_at(tables).folder(name).uri, wall=wall), keep, wall)


def bronze_tables(tables: str | Path) -> Iterator[tuple[str, Folder]]:
    """Yield the bronze tables that exist, with their names, such as `bronze/disposition`."""
    for kind in Kind:
        table = table_folder(tables, kind)
        if has_log(table):
            yield f"bronze/{kind}", table


def _set(name: str, tables: TableSet, keep: timedelta, wall: Callable[[], float]) -> Iterator[Upkept]:
    if not tables.current().run:
        return
    with tables.next() as run:
        run.state |= run.before.state
        sizes = {each: size_of(tables.folder.folder(each)) for each in run.tables}
        for each in run.tables:
            run.compact(each)
    # A record goes before its files, so no record names a version without files.
    kept = tables.forget_runs(wall() - keep.total_seconds())
    for each, before in sizes.items():
        versions = {state.tables[each].delta for state in kept if each in state.tables}
        yield _finished(f"{name}/{each}", tables.folder.folder(each), before, keep, versions)


def _finished(name: str, table: Folder, before: Size, keep: timedelta, versions: set[int] | None = None) -> Upkept:
    removed = remove_old_files(table, keep, versions or ())
    write_checkpoint(table)
    return Upkept(table=name, before=before, after=size_of(table), removed=removed)
