"""What the commands of the pipeline do, on a folder of tables: `bronze/<kind>`, `silver` and `gold` in it.

The same functions run under spark-submit: hand them a session. Knows where tables are; what is in them is others' business.
"""

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

__all__ = ("Triaged", "bronze_table", "gold", "report", "silver", "triage")


class _Logged(Struct):
    """One file, as the log of Spark's file sink names it."""

    path: str


class Triaged(Struct, frozen=True):
    """What a rules table would do, with some of what it leaves, and what another one would do otherwise."""

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


def triage(spark: "SparkSession", tables: Path, rules: str, against: str | None = None, *, retries: bool = False) -> Triaged:
    """Return what the table would do with the dead letters in bronze, and what the other one would do otherwise.

    With `retries` what would be tried next, where what comes first fails, is compared too.
    """
    compiled, letters = compile_rules(rules), bronze_table(spark, tables, Kind.DEAD_LETTER)
    differences = () if against is None else dry_run.differences(letters, compiled, compile_rules(against), retries=retries)
    found = dry_run.triage(letters, compiled)
    return Triaged(found, dry_run.unmatched(letters, compiled, known=found), differences)


def report(spark: "SparkSession", tables: Path, output: Path, rules: str | None = None) -> Path:
    """Bring silver and gold up to bronze, and write the report; return where its page is."""
    silver(spark, tables, rules)
    gold(spark, tables)
    letters = bronze_table(spark, tables, Kind.DEAD_LETTER)
    tried = None if rules is None else dry_run.triage(letters, compile_rules(rules))
    return write_report(gather(spark, _set(tables, "gold"), _set(tables, "silver"), tried), output)


def _set(tables: Path, name: str) -> TableSet:
    return TableSet(tables.absolute() / name)  # the folder that Java works in is that of its start


def bronze_table(spark: "SparkSession", tables: Path, kind: Kind) -> "DataFrame":
    """Return the bronze table, in the columns of this mqflow; empty where nothing of the kind was ever landed."""
    path = tables.absolute() / "bronze" / kind.value
    if not path.exists():
        return spark.createDataFrame([], ddl(kind))
    if (path / "_delta_log").exists():
        return read_delta(spark, path, ddl(kind))
    _check_home(path)
    # Its columns are told: a first run that ended before its first batch leaves a table without a file to read them from.
    return spark.read.schema(f"{ddl(kind)}, ingest_date date").parquet(str(path))


def _check_home(table: Path) -> None:
    """Raise `PipelineError` where the table's log names files of another folder: it is a copy, and Spark would read those."""
    first = next((log for log in sorted((table / "_spark_metadata").glob("[0-9]*"))), None)
    named = None if first is None else next(iter(first.read_bytes().splitlines()[1:]), None)  # the first line is a version
    if named is None:
        return
    file = Path(url2pathname(urlsplit(msgspec.json.decode(named, type=_Logged).path).path))
    if not file.resolve().is_relative_to(table.resolve()):
        raise PipelineError(
            f"The table {table} names its files by their whole paths, and they are elsewhere: {file}. It was copied or moved "
            "from there. Nothing was changed. Move it back, or make the tables anew from the journal in another folder."
        )
