"""The jobs behind the commands of the pipeline, on a folder with the tables `bronze/<kind>`, `silver` and `gold`.

Under spark-submit the same functions use the session of spark-submit. The functions know where the tables are, but not what
the tables contain.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mqflow.folders import folder_at
from mqflow.journal.schemas import Kind, ddl
from mqflow.pipeline.dead_letters import triage as dry_run
from mqflow.pipeline.dead_letters.rules_columns import compile_rules
from mqflow.pipeline.delta.log import delta_table, has_log
from mqflow.pipeline.report.data import gather
from mqflow.pipeline.report.page import write_report
from mqflow.pipeline.session import use_in_this_thread
from mqflow.pipeline.tables import bronze as landed_tables
from mqflow.pipeline.tables import medallion
from mqflow.pipeline.tables.delta_table import read_delta
from mqflow.pipeline.tables.table_set import TableSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("Triaged", "bronze", "bronze_table", "gold", "report", "silver", "table_set", "triage")


class Triaged(Struct, frozen=True):
    """The result of a dry run: rules, a sample of unmatched letters, and the differences from another rules table."""

    triage: dry_run.Triage
    unmatched: tuple[dry_run.Unmatched, ...]
    differences: tuple[dry_run.Difference, ...]


def bronze(
    spark: "SparkSession",
    journal: str | Path,
    tables: str | Path,
    kinds: Sequence[Kind] | None = None,
    *,
    payload: str = "full",
    consumer: str = "bronze",
    rows_per_batch: int = landed_tables.ROWS_PER_BATCH,
    bytes_per_batch: int = landed_tables.BYTES_PER_BATCH,
    batches_max: int | None = None,
    tell: Callable[[Kind, int], None] = lambda _kind, _rows: None,
) -> tuple[landed_tables.WrittenTable, ...]:
    """Copy the new rows of the journal into the bronze tables of these kinds, by default of every kind in the journal.

    Returns the result for each kind. `tell` receives the number of rows of a kind so far. Raises the errors of `bronze.bronze`.
    """
    use_in_this_thread(spark)
    return tuple(
        landed_tables.bronze(
            spark,
            landed_tables.Bronze(
                journal=journal,
                tables=tables,
                kind=kind,
                payload=payload,
                consumer=consumer,
                rows_per_batch=rows_per_batch,
                bytes_per_batch=bytes_per_batch,
                batches_max=batches_max,
            ),
            partial(tell, kind),
        )
        for kind in (landed_tables.kinds_of(journal) if kinds is None else kinds)
    )


def silver(
    spark: "SparkSession",
    tables: str | Path,
    rules: str | None = None,
    *,
    payload: str | None = None,
    dedupe: bool | None = None,
    whole: bool = False,
) -> None:
    """Bring silver up to date with bronze, as `medallion.run_silver` does.

    Raises `RulesError` for a rules table with errors, before anything is read.
    """
    compiled = compile_rules(rules) if rules is not None else None
    # The last segments must be those of the version that is read: a later version has records that this run does not see.
    found = {kind: delta_table(folder) for kind in Kind if has_log(folder := landed_tables.table_folder(tables, kind))}
    read = {kind: bronze_table(spark, tables, kind, found[kind].version() if kind in found else None) for kind in Kind}
    landed = medallion.BronzeFrames(
        dispositions=read[Kind.DISPOSITION],
        letters=read[Kind.DEAD_LETTER],
        backed_out=read[Kind.BACKOUT_MESSAGE],
        payloads=read[Kind.PAYLOAD],
        lasts=landed_tables.logged_segments(found),
    )
    medallion.run_silver(
        spark, table_set(tables, "silver"), landed, rules=compiled, payload=payload, dedupe=dedupe, whole=whole
    )


def gold(spark: "SparkSession", tables: str | Path) -> medallion.GoldRun:
    """Bring gold up to date with silver."""
    landed = bronze_table(spark, tables, Kind.DISPOSITION)
    return medallion.run_gold(spark, table_set(tables, "gold"), table_set(tables, "silver"), landed)


def triage(
    spark: "SparkSession",
    tables: str | Path,
    rules: str,
    against: str | None = None,
    *,
    retries: bool = False,
    as_of: datetime | None = None,
) -> Triaged:
    """Return the effect of the rules table on the dead letters in bronze, and the differences from the table `against`.

    `retries` also compares the actions that follow if the first action fails. With `as_of` (a time with a time zone), the
    function counts only the letters that had landed at that time.
    """
    compiled, letters = compile_rules(rules), _letters(spark, tables, as_of)
    differences = () if against is None else dry_run.differences(letters, compiled, compile_rules(against), retries=retries)
    found = dry_run.triage(letters, compiled)
    return Triaged(found, dry_run.unmatched(letters, compiled, known=found), differences)


def report(
    spark: "SparkSession", tables: str | Path, output: Path, rules: str | None = None, as_of: datetime | None = None
) -> Path:
    """Bring silver and gold up to date with bronze, and write the report; return the path of its page.

    With `as_of` (a time with a time zone) the report has the tables as they were at that time, and no table changes.
    """
    if as_of is None:
        silver(spark, tables, rules)
        gold(spark, tables)
    counted, made = (table_set(tables, name, as_of) for name in ("gold", "silver"))
    letters = _letters(spark, tables, as_of)
    tried = None if rules is None else dry_run.triage(letters, compile_rules(rules))
    return write_report(gather(spark, counted, made, tried), output)


def table_set(tables: str | Path, name: str, as_of: datetime | int | None = None) -> TableSet:
    """Return the tables of silver or gold.

    With `as_of`, the tables are as they were after a run, or at a time with a time zone. Raises `PipelineError` for a run that
    is not kept.
    """
    found = TableSet(folder_at(tables).folder(name).uri)
    return found if as_of is None else found.as_of(as_of)


def _letters(spark: "SparkSession", tables: str | Path, as_of: datetime | None) -> "DataFrame":
    letters = bronze_table(spark, tables, Kind.DEAD_LETTER)
    return letters if as_of is None else letters.where(letters["landed_ts"] <= as_of)


def bronze_table(spark: "SparkSession", tables: str | Path, kind: Kind, version: int | None = None) -> "DataFrame":
    """Return a version of the bronze table, by default the last, in the columns of this mqflow; empty if there is no table.

    Raises the errors of `read_delta`, and `PipelineError` for a table that an older mqflow wrote as Parquet.
    """
    use_in_this_thread(spark)
    folder = landed_tables.table_folder(tables, kind)
    landed_tables.check_format(folder)
    if not has_log(folder):
        return spark.createDataFrame([], ddl(kind))
    return read_delta(spark, folder.uri, ddl(kind), version)
