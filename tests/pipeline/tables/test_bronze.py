"""Bronze tables and the Delta sink: a table has each message of a journal once, after any replay or failure."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from msgspec.structs import replace
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.cli.pipeline import spark_tables
from mqflow.cli.pipeline.spark_session import spark_errors_as_sentences
from mqflow.journal import Consumers, Journal, Kind, MissingSegmentError, columns_of
from mqflow.pipeline import PipelineError, jobs
from mqflow.pipeline.tables import bronze as bronze_module
from mqflow.pipeline.tables.bronze import Bronze, bronze
from mqflow.testing.journals import generate_journal
from tests.journal.files import every_row, path_of


def rows_of(table: Any) -> list[tuple[str, int, int]]:
    return sorted((row["lane"], row["segment"], row["ordinal"]) for row in table.to_pylist())


def landed(table: str | Path) -> list[tuple[str, int, int]]:
    return rows_of(DeltaTable(str(table)).to_pyarrow_table())


@pytest.fixture
def asked(journal: Path, tmp_path: Path) -> Bronze:
    return Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER)


class _KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


def killed(*_: Any, **__: Any) -> None:
    raise _KilledError


def test_a_journal_is_in_its_table_once_with_its_columns_over_several_runs_and_commits(
    spark: SparkSession, journal: Path, asked: Bronze
) -> None:
    asked = replace(asked, rows_per_batch=60)
    told: list[int] = []
    first = bronze(spark, asked, told.append)
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=7, lane="C.DLQ")
    second, third = bronze(spark, asked), bronze(spark, asked)

    assert [(100, 2), (12, 1), (0, 0)] == [(run.rows, run.batches) for run in (first, second, third)]
    assert [60, 100] == told
    assert every_row(journal) == landed(first.table)
    assert 2 == DeltaTable(first.table).version(), "a run without new segments makes no version"
    names = DeltaTable(first.table).to_pyarrow_table().column_names
    assert {*(column.name for column in columns_of(Kind.DEAD_LETTER)), "ingest_date"} == set(names)


def test_a_limit_of_bytes_ends_a_commit(spark: SparkSession, asked: Bronze) -> None:
    asked = replace(asked, bytes_per_batch=1)

    assert 5 == bronze(spark, asked).batches, "a commit has at least one segment"


@pytest.mark.parametrize(("step", "call", "left"), [("_write", 1, 100), ("_check_written", 1, 40), ("_acknowledge", 2, 40)])
def test_a_kill_before_or_after_the_commit_loses_and_repeats_nothing(
    spark: SparkSession, journal: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int, left: int, asked: Bronze
) -> None:
    asked = replace(asked, rows_per_batch=60)
    calls, real = count(1), getattr(bronze_module, step)
    with monkeypatch.context() as patch:
        patch.setattr(bronze_module, step, lambda *a: killed() if next(calls) == call else real(*a))
        with pytest.raises(_KilledError):
            bronze(spark, asked)
    done = bronze(spark, asked)

    assert left == done.rows
    assert every_row(journal) == landed(done.table)


def test_of_two_runs_at_the_same_time_one_finds_its_rows_written(
    spark: SparkSession, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Bronze
) -> None:
    overtake(monkeypatch, lambda: bronze(spark, asked))

    bronze(spark, asked)
    assert every_row(journal) == landed(tmp_path / "tables" / "bronze" / "dead_letter")


def test_of_two_runs_that_write_other_commits_one_is_refused(
    spark: SparkSession, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Bronze
) -> None:
    bronze(spark, asked)
    generate_journal(journal, Kind.DEAD_LETTER, segments=5, rows=20, lane="A.DLQ")

    def one_commit() -> None:
        with suppress(_KilledError):
            bronze(spark, replace(asked, rows_per_batch=60), killed)

    overtake(monkeypatch, one_commit)
    with pytest.raises(PySparkException, match=r"another program writes the same rows\. Nothing was added"):
        bronze(spark, asked)
    assert 40 == bronze(spark, asked).rows
    assert every_row(journal) == landed(tmp_path / "tables" / "bronze" / "dead_letter")


def overtake(monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another run finish after this one has chosen its segments, and before it writes them."""
    write = bronze_module._write

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(bronze_module, "_write", write)
        other()
        write(*arguments)

    monkeypatch.setattr(bronze_module, "_write", overtaken)


def test_segments_are_kept_until_they_are_in_the_table(
    spark: SparkSession, journal: Path, monkeypatch: pytest.MonkeyPatch, asked: Bronze
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bronze_module, "_write", killed)
        with pytest.raises(_KilledError):
            bronze(spark, asked)
    before = Consumers(Journal.open(journal)).find("bronze-dead_letter")
    bronze(spark, asked)
    after = Consumers(Journal.open(journal)).find("bronze-dead_letter")

    assert before is not None, "registered before it reads, so that no trim overtakes it"
    assert {} == before.offsets
    assert after is not None
    assert {"A.DLQ": 3, "B.DLQ": 2} == after.offsets


def test_a_new_table_begins_after_the_trimmed_segments_and_another_table_does_not_move_the_consumer_back(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    bronze(spark, Bronze(journal=journal, tables=tmp_path / "first", kind=Kind.DEAD_LETTER))
    Consumers(Journal.open(journal)).trim()
    generate_journal(journal, Kind.DEAD_LETTER, segments=2, rows=5, lane="A.DLQ")
    asked = Bronze(journal=journal, tables=tmp_path / "second", kind=Kind.DEAD_LETTER, rows_per_batch=5)

    assert [(10, 2, {"A.DLQ": 3, "B.DLQ": 2}), (0, 0, {})] == [
        (run.rows, run.batches, run.lacking) for run in (bronze(spark, asked), bronze(spark, asked))
    ]
    assert every_row(journal) == landed(tmp_path / "second" / "bronze" / "dead_letter")


def test_a_lost_segment_is_an_error(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    first = Journal.open(journal).lane("A.DLQ").all_segments()[0]
    first.folder.remove(first.name)

    with pytest.raises(MissingSegmentError, match=r"Lane A\.DLQ has no segment 1"):
        bronze(spark, Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))


def test_a_journal_from_an_older_copy_is_refused_because_its_next_rows_would_be_skipped(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    copytree(journal, tmp_path / "older")
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")
    bronze(spark, Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))

    with pytest.raises(PipelineError, match=r"up to 4, and the last segment in the journal is 3\. The journal lost segments"):
        bronze(spark, Bronze(journal=tmp_path / "older", tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))


def test_a_lane_that_was_removed_and_made_again_is_refused_although_it_is_longer_now(
    spark: SparkSession, journal: Path, tmp_path: Path, asked: Bronze
) -> None:
    bronze(spark, asked)
    rmtree(journal / "lanes" / "A.DLQ")
    (journal / "heads" / "A.DLQ.json").unlink()
    generate_journal(journal, Kind.DEAD_LETTER, segments=5, rows=5, lane="A.DLQ", seed=9)

    with pytest.raises(PipelineError, match=r"has rows of an earlier lane A\.DLQ: .* Nothing was changed\. Make new tables"):
        bronze(spark, asked)
    bronze(spark, replace(asked, tables=tmp_path / "new"))
    assert every_row(journal) == landed(tmp_path / "new" / "bronze" / "dead_letter")


def test_a_table_of_an_older_mqflow_learns_its_lanes_with_their_next_segments(
    spark: SparkSession, journal: Path, monkeypatch: pytest.MonkeyPatch, asked: Bronze
) -> None:
    with monkeypatch.context() as older:
        older.setattr(bronze_module, "_new_identities", lambda *_: {})
        table = bronze(spark, asked).table
    generate_journal(journal, Kind.DEAD_LETTER, segments=2, rows=5, lane="A.DLQ")

    bronze(spark, replace(asked, rows_per_batch=1))

    known = Journal.open(journal)
    written = [DeltaTable(table).transaction_version(f"mqflow-bronze-lane {known.id} {name}") for name in ("A.DLQ", "B.DLQ")]
    assert [known.lane("A.DLQ").file.identity, None] == written
    assert every_row(journal) == landed(table)


def test_the_table_of_another_journal_is_refused(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    bronze(spark, Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))
    generate_journal(tmp_path / "other", Kind.DEAD_LETTER, segments=9, rows=5, lane="A.DLQ")

    with pytest.raises(PipelineError, match=r"is not a bronze table of the journal .*/other .* Nothing was changed"):
        bronze(spark, Bronze(journal=tmp_path / "other", tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))
    assert every_row(journal) == landed(tmp_path / "tables" / "bronze" / "dead_letter")


def test_a_table_of_an_older_mqflow_gets_new_columns_and_columns_of_others_stay(
    spark: SparkSession, journal: Path, tmp_path: Path, asked: Bronze
) -> None:
    done = bronze(spark, asked)
    older = DeltaTable(done.table).to_pyarrow_table().drop_columns(["msg_id"])
    write_deltalake(
        done.table,
        older.append_column("tenant", pa.array(["x"] * 100)),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["ingest_date", "lane"],
    )
    generate_journal(journal, Kind.DEAD_LETTER, segments=1, rows=5, lane="A.DLQ")

    assert 5 == bronze(spark, asked).rows
    table = DeltaTable(done.table).to_pyarrow_table()
    assert every_row(journal) == rows_of(table)
    assert (100, 5) == (table["msg_id"].null_count, table["tenant"].null_count)
    assert 100 == jobs.bronze_table(spark, tmp_path / "tables", Kind.DEAD_LETTER).where("msg_id is null").count()


def test_bronze_lives_in_an_object_store_and_duckdb_and_polars_read_it(spark: SparkSession, bucket: str) -> None:
    generate_journal(f"{bucket}/journal", Kind.DEAD_LETTER, segments=3, rows=20, lane="A.DLQ")
    asked = Bronze(journal=f"{bucket}/journal", tables=f"{bucket}/tables", kind=Kind.DEAD_LETTER, rows_per_batch=40)
    done = bronze(spark, asked)

    expected = [("A.DLQ", number, ordinal) for number in (1, 2, 3) for ordinal in range(20)]
    assert (60, 2) == (done.rows, done.batches)
    assert f"{bucket}/tables/bronze/dead_letter" == done.table
    assert expected == landed(done.table)
    table = jobs.bronze_table(spark, f"{bucket}/tables", Kind.DEAD_LETTER)
    assert expected == sorted(tuple(row) for row in table.select("lane", "segment", "ordinal").collect())
    columns = ["lane", "segment", "ordinal"]
    assert expected == pl.scan_delta(done.table).select(columns).sort(columns).collect().rows()


def test_duckdb_and_polars_read_bronze(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    done = bronze(spark, Bronze(journal=journal, tables=tmp_path / "tables", kind=Kind.DEAD_LETTER))

    columns = ["lane", "segment", "ordinal"]
    assert every_row(journal) == pl.scan_delta(done.table).select(columns).sort(columns).collect().rows()
    counted = duckdb.connect().from_arrow(DeltaTable(done.table).to_pyarrow_dataset()).aggregate("lane, count(*)", "lane")
    assert [("A.DLQ", 60), ("B.DLQ", 40)] == sorted(counted.fetchall())


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


def test_the_error_of_a_failed_task_names_the_full_disk_under_a_table() -> None:
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
