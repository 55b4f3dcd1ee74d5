"""The reader of Delta tables follows the log, with Spark's own scan and without a jar."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from mqflow.journal import Kind
from mqflow.pipeline import PipelineError, jobs
from mqflow.pipeline.dead_letters.rules_columns import compile_rules
from mqflow.pipeline.tables import delta_table, silver
from mqflow.pipeline.tables.bronze import Bronze, bronze
from mqflow.pipeline.tables.delta_table import read_delta

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = "n int, lane string, day date, more string"


def added(
    spark: SparkSession, path: Path, *rows: tuple[Any, ...], mode: str = "append", partition_by: str = "lane,day"
) -> None:
    frame = spark.createDataFrame(list(rows), "n int, lane string, day date")
    frame.write.format("mqflow_delta").mode(mode).option("partitionBy", partition_by).save(str(path))


def found(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in read_delta(spark, path, COLUMNS).collect()), key=repr)


def test_rows_have_what_the_log_says_of_their_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Lanes with a slash, an empty name, and Spark's name of a null partition, which folder names cannot express."""
    day = date(2026, 1, 2)
    rows = [(1, "A.DLQ", day), (2, "b/ü =", day), (3, None, day), (4, "__HIVE_DEFAULT_PARTITION__", None)]
    added(spark, tmp_path / "t", *rows)

    assert sorted([(*row, None) for row in rows], key=repr) == found(spark, tmp_path / "t")


def test_files_of_no_version_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None))
    added(spark, tmp_path / "t", (2, "A", None), mode="overwrite")
    added(spark, tmp_path / "t", (3, "B", None))

    assert 3 == len(list((tmp_path / "t").rglob("*.parquet")))
    assert [(2, "A", None, None), (3, "B", None, None)] == found(spark, tmp_path / "t")


def test_a_table_without_partitions_and_one_without_rows_are_read(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None), partition_by="")
    added(spark, tmp_path / "empty")

    assert [(1, "A", None, None)] == found(spark, tmp_path / "t")
    assert [] == found(spark, tmp_path / "empty")


def test_without_deltalake_the_extra_is_named(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_table, "find_spec", lambda _: None)

    with pytest.raises(PipelineError, match=r"pip install 'mqflow\[delta\]'"):
        read_delta(spark, tmp_path, COLUMNS)


def test_a_table_whose_files_do_not_say_its_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    added(spark, tmp_path / "t", (1, "A", None))
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.enableDeletionVectors": "true"})

    with pytest.raises(PipelineError, match="uses deletionVectors: its files alone do not have its rows"):
        read_delta(spark, tmp_path / "t", COLUMNS)


def test_silver_of_a_delta_bronze_is_silver_of_a_parquet_bronze(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    made: dict[str, list[str]] = {}
    forms: list[Any] = ["parquet", "delta"]
    for form in forms:
        bronze(spark, Bronze(journal=journal, tables=tmp_path / form, kind=Kind.DEAD_LETTER, format=form, consumer=""))
        letters = silver.dead_letters(
            jobs.bronze_table(spark, tmp_path / form, Kind.DEAD_LETTER), compile_rules("ACTION(RETRY)")
        )
        rows = letters.toArrow().to_pylist()
        made[form] = sorted(map(str, rows))

    assert made["parquet"] == made["delta"]
    assert 100 == len(made["delta"])
