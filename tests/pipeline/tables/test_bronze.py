"""Bronze tables and the Delta sink: a table has each message of a journal once, after any replay or failure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.cli.pipeline import spark_tables
from mqflow.cli.pipeline.spark_session import spark_errors_as_sentences
from mqflow.journal import Consumers, Journal, Kind, columns_of
from mqflow.pipeline import PipelineError
from mqflow.pipeline.tables.bronze import Bronze, bronze
from mqflow.testing.journals import generate_journal
from tests.journal.files import path_of


def rows_of(table: Any) -> list[tuple[str, int, int]]:
    return sorted((row["lane"], row["segment"], row["ordinal"]) for row in table.to_pylist())


def everything(journal: Path) -> list[tuple[str, int, int]]:
    return [
        (lane.name, segment.number, ordinal)
        for lane in Journal.open(journal).lanes()
        for segment in lane.all_segments()
        for ordinal in range(segment.rows)
    ]


def unwritten(folder: Path, batch: int) -> None:
    """The state after a kill between the commits of the sink and of Spark."""
    (folder / "commits" / str(batch)).unlink()
    (folder / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_journal_is_in_its_table_once_with_its_columns_after_a_kill_before_the_commit_log(
    spark: SparkSession, journal: Path, tmp_path: Path, form: Any
) -> None:
    asked = Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER, format=form, rows_per_batch=60)
    first = bronze(spark, asked)
    unwritten(tmp_path / "tables" / "checkpoints" / "bronze" / "dead_letter", 1)
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")
    bronze(spark, asked)

    table: Any = (
        DeltaTable(first.table).to_pyarrow_table() if form == "delta" else spark.read.parquet(str(first.table)).toArrow()
    )
    assert (100, 2) == (first.rows, first.batches)
    assert everything(journal) == rows_of(table)
    assert {*(column.name for column in columns_of(Kind.DEAD_LETTER)), "ingest_date"} == set(table.column_names)


def test_segments_are_kept_until_they_are_in_the_table(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    asked = Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER)
    bronze(spark, asked)
    bronze(spark, asked)  # acknowledges the batch of the first run

    found = Consumers(Journal.open(journal)).find("bronze-dead_letter")
    assert found is not None
    assert {"A.DLQ": 3, "B.DLQ": 2} == found.offsets


def test_the_command_writes_every_kind_and_a_second_run_nothing_more(
    spark: SparkSession, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    generate_journal(journal, Kind.BACKOUT_MESSAGE, segments=1, rows=3)
    arguments = ["spark", "bronze", "--journal", str(journal), "--tables", str(tmp_path / "tables")]

    runs = [CliRunner().invoke(main, arguments) for _ in range(2)]

    assert [0, 0] == [run.exit_code for run in runs], [run.output for run in runs]
    assert ["backout_message 3", "dead_letter 100"] == counts(runs[0].stdout)
    assert ["backout_message 0", "dead_letter 0"] == counts(runs[1].stdout)
    assert 0o700 == (tmp_path / "tables").stat().st_mode & 0o777  # it has message bodies


def counts(shown: str) -> list[str]:
    return [" ".join(line.split()[:2]) for line in shown.splitlines()[2:]]


def test_the_command_says_what_is_wrong_with_a_segment_in_one_sentence(
    spark: SparkSession, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    segment = path_of(Journal.open(journal).lane("A.DLQ").all_segments()[0])
    segment.write_bytes(segment.read_bytes()[:-9])

    run = CliRunner().invoke(main, ["spark", "bronze", "--journal", str(journal), "--tables", str(tmp_path / "tables")])

    assert 1 == run.exit_code
    assert f"mqflow: The segment {segment} is damaged" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_full_disk_under_a_table_is_said_where_spark_says_that_a_task_failed() -> None:
    said = "[TASK_WRITE_FAILED] Task failed while writing rows"  # seen with a table on a file system of 300 kB
    error: Any = PySparkException(said)
    error._stackTrace = f"{said}\nCaused by: java.io.IOException: No space left on device\n\tat"

    with pytest.raises(PipelineError, match="no room to write: No space left on device") as caught, spark_errors_as_sentences():
        raise error
    assert "run the command again" in str(caught.value)
    with pytest.raises(PySparkException), spark_errors_as_sentences():
        raise PySparkException(said)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--journal", "nowhere"], "is not a journal"),
        (["--journal", "{journal}", "--kind", "letters"], "'letters' is not a kind"),
        (["--journal", "{journal}", "--payload", "some"], "head:N"),
    ],
)
def test_the_command_refuses_before_spark_is_started(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], sentence: str
) -> None:
    monkeypatch.setattr(spark_tables, "started", lambda *_, **__: pytest.fail("Spark was started"))
    given = [each.format(journal=journal) for each in arguments]

    run = CliRunner().invoke(main, ["spark", "bronze", "--tables", str(tmp_path), *given])

    assert 0 != run.exit_code
    assert sentence in run.stderr


def delta(rows: Any, path: Path, **options: str) -> None:
    rows.write.format("mqflow_delta").mode("append").options(path=str(path), **options).save()


def test_a_delta_table_takes_a_batch_of_an_application_once_and_others_as_often_as_they_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.createDataFrame([(1, "a", None), (2, "b/ü=", b"x"), (3, None, b"y")], "n int, p string, b binary")
    for _ in range(2):
        delta(rows, tmp_path / "once", appId="job", partitionBy="p")
        delta(rows, tmp_path / "twice")

    once = DeltaTable(tmp_path / "once").to_pyarrow_table()
    assert [(1, "a", None), (2, "b/ü=", b"x"), (3, None, b"y")] == sorted(
        (row["n"], row["p"], row["b"]) for row in once.to_pylist()
    )
    assert 6 == DeltaTable(tmp_path / "twice").to_pyarrow_table().num_rows


def test_rows_of_other_columns_leave_a_delta_table_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    delta(spark.range(3), tmp_path / "table")

    with pytest.raises(PySparkException, match=r"has other columns: id, name differ. Nothing was added"):
        delta(spark.createDataFrame([("a",)], "name string"), tmp_path / "table")
    with pytest.raises(PySparkException, match="partitioned by nothing, not id"):
        delta(spark.range(3), tmp_path / "table", partitionBy="id")
    assert 0 == DeltaTable(tmp_path / "table").version()


def test_a_task_that_fails_leaves_a_delta_table_at_its_version(spark: SparkSession, tmp_path: Path) -> None:
    delta(spark.range(3), tmp_path / "table")

    planted = spark.range(40).selectExpr("if(id = 39, cast(raise_error('planted') as bigint), id) as id")
    with pytest.raises(PySparkException, match="planted"):
        delta(planted, tmp_path / "table")
    assert 0 == DeltaTable(tmp_path / "table").version()
    assert 3 == DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows


def test_a_delta_stream_without_a_name_is_refused(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    rows = spark.readStream.format("mqflow_journal").load(str(journal))

    with pytest.raises(StreamingQueryException, match="needs 'appId' for a stream"):
        rows.writeStream.format("mqflow_delta").option("checkpointLocation", str(tmp_path / "c")).trigger(
            availableNow=True
        ).start(str(tmp_path / "table")).awaitTermination()
