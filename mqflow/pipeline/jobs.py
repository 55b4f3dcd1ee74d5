"""The jobs behind the commands of the pipeline, on a folder with the tables `bronze/<kind>`, `silver` and `gold`.

Under spark-submit the same functions use its session. They know where the tables are, but not what the tables contain.
"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec
from msgspec import Struct

from mqflow.journal.schemas import Kind, ddl
from mqflow.pipeline.dead_letters import triage as dry_run
from mqflow.pipeline.dead_letters.rules_columns import compile_rules
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.report.data import gather
from mqflow.pipeline.report.page import write_report
from mqflow.pipeline.tables import medallion
from mqflow.pipeline.tables.delta_table import read_delta
from mqflow.pipeline.tables.folder import TableSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ("Triaged", "bronze_table", "gold", "report", "silver", "tables_as_of", "triage")


class _Logged(Struct):
    """One entry in the log of Spark's file sink: it names one file."""

    path: str


class Triaged(Struct, frozen=True):
    """The result of a dry run: rules, a sample of unmatched letters, and the differences from another rules table."""

    triage: dry_run.Triage
    unmatched: tuple[dry_run.Unmatched, ...]
    differences: tuple[dry_run.Difference, ...]


def silver(
    spark: "SparkSession",
    tables: Path,
    rules: str | None = None,
    *,
    payload: str | None = None,
    dedupe: bool | None = None,
    whole: bool = False,
) -> None:
    """Bring silver up to bronze, as `medallion.run_silver` does.

    Raises `RulesError` for a rules table with errors, before anything is read.
    """
    compiled = compile_rules(rules) if rules is not None else None
    landed = medallion.BronzeFrames(
        dispositions=bronze_table(spark, tables, Kind.DISPOSITION),
        letters=bronze_table(spark, tables, Kind.DEAD_LETTER),
        backed_out=bronze_table(spark, tables, Kind.BACKOUT_MESSAGE),
        payloads=bronze_table(spark, tables, Kind.PAYLOAD),
    )
    medallion.run_silver(spark, _set(tables, "silver"), landed, rules=compiled, payload=payload, dedupe=dedupe, whole=whole)


def gold(spark: "SparkSession", tables: Path) -> medallion.GoldRun:
    """Bring gold up to silver."""
    landed = bronze_table(spark, tables, Kind.DISPOSITION)
    return medallion.run_gold(spark, _set(tables, "gold"), _set(tables, "silver"), landed)


def triage(
    spark: "SparkSession",
    tables: Path,
    rules: str,
    against: str | None = None,
    *,
    retries: bool = False,
    as_of: datetime | None = None,
) -> Triaged:
    """Return what the rules table would do with the dead letters in bronze, and the differences from the table `against`.

    `retries` also compares the actions that follow if the first action fails. With `as_of` (a time of a time zone), only the
    letters count that had landed at that time.
    """
    compiled, letters = compile_rules(rules), _letters(spark, tables, as_of)
    differences = () if against is None else dry_run.differences(letters, compiled, compile_rules(against), retries=retries)
    found = dry_run.triage(letters, compiled)
    return Triaged(found, dry_run.unmatched(letters, compiled, known=found), differences)


def report(spark: "SparkSession", tables: Path, output: Path, rules: str | None = None, as_of: datetime | None = None) -> Path:
    """Bring silver and gold up to bronze, and write the report; return the path of its page.

    With `as_of` (a time of a time zone) the report has the tables as they were at that time, and no table changes.
    """
    if as_of is None:
        silver(spark, tables, rules)
        gold(spark, tables)
    counted, made = (tables_as_of(tables, name, as_of) for name in ("gold", "silver"))
    letters = _letters(spark, tables, as_of)
    tried = None if rules is None else dry_run.triage(letters, compile_rules(rules))
    return write_report(gather(spark, counted, made, tried), output)


def tables_as_of(tables: Path, name: str, as_of: datetime | int | None = None) -> TableSet:
    """Return the tables `silver` or `gold` as they were at a time (of a time zone) or after a run; as they are if None.

    Raises `PipelineError` for a run that is not kept.
    """
    found = _set(tables, name)
    return found if as_of is None else found.as_of(as_of)


def _letters(spark: "SparkSession", tables: Path, as_of: datetime | None) -> "DataFrame":
    letters = bronze_table(spark, tables, Kind.DEAD_LETTER)
    return letters if as_of is None else letters.where(letters["landed_ts"] <= as_of)


def _set(tables: Path, name: str) -> TableSet:
    return TableSet(tables.absolute() / name)  # Java's working folder is the one in which it was started


def bronze_table(spark: "SparkSession", tables: Path, kind: Kind) -> "DataFrame":
    """Return the bronze table, in the columns of this mqflow; empty if nothing of the kind was ever landed."""
    path = tables.absolute() / "bronze" / kind.value
    if not path.exists():
        return spark.createDataFrame([], ddl(kind))
    if (path / "_delta_log").exists():
        return read_delta(spark, path, ddl(kind))
    _check_home(path)
    # The schema is given, because a first run that ended before its first batch leaves a table without files to read it from.
    return spark.read.schema(f"{ddl(kind)}, ingest_date date").parquet(str(path))


def _check_home(table: Path) -> None:
    """Raise `PipelineError` if the table is a copy: its log names files of another folder, and Spark would read those."""
    first = next((log for log in sorted((table / "_spark_metadata").glob("[0-9]*"))), None)
    named = None if first is None else next(iter(first.read_bytes().splitlines()[1:]), None)  # the first line is a version
    if named is None:
        return
    file = Path(url2pathname(urlsplit(msgspec.json.decode(named, type=_Logged).path).path))
    if not file.resolve().is_relative_to(table.resolve()):
        raise PipelineError(
            f"The table {table} names its files by their full paths, and they are in another folder: {file}. The table was "
            "copied or moved. Nothing was changed. Move it back, or make the tables again from the journal in another folder."
        )
