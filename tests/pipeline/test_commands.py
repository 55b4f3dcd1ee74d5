"""The commands of the pipeline: one sentence for each error, and options for the place where Spark runs.

`test_flights_on_spark` tests their work, from queues to the page.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.journal import Kind
from mqflow.journal.schemas import ddl
from mqflow.pipeline import PipelineError, jobs
from mqflow.testing.journals import generate_journal
from tests.docs.pages import TUTORIAL, Terminal, typed_on


def typed(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin)


def test_a_bronze_table_of_an_older_mqflow_is_refused(tmp_path: Path) -> None:
    nobody: Any = None  # Spark does not run
    (tmp_path / "bronze" / "dead_letter" / "_spark_metadata").mkdir(parents=True)

    with pytest.raises(PipelineError, match=r"is a table of Parquet files.* again from the journal in another folder"):
        jobs.bronze_table(nobody, tmp_path, Kind.DEAD_LETTER)


def test_the_files_of_a_first_run_that_was_killed_before_its_commit_are_no_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bronze" / "dead_letter" / "ingest_date=2026-01-02").mkdir(parents=True)

    assert 0 == jobs.bronze_table(spark, tmp_path, Kind.DEAD_LETTER).count()


def test_each_job_runs_in_a_thread_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=1, rows=3)

    def rows() -> int:
        return jobs.bronze_table(spark, tmp_path / "tables", Kind.DEAD_LETTER).count()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(jobs.bronze, spark, tmp_path / "journal", tmp_path / "tables").result()
    with ThreadPoolExecutor(1) as thread:
        assert 3 == thread.submit(rows).result()


@pytest.mark.parametrize("command", ["silver", "gold", "triage"])
def test_tables_in_which_nothing_has_landed_are_empty_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, interpreted: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "rules.txt").write_text("REASON(MQRC_Q_FULL) ACTION(RETRY)\n")
    more = ["rules.txt", "--against", "rules.txt"] if command == "triage" else []
    where = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.sql.ansi.enabled=true"]

    result = typed("spark", command, *more, "--tables", "tables", *where)

    assert 0 == result.exit_code, result.stderr
    assert {"silver": "Silver is up to date with bronze", "gold": "no window is closed yet", "triage": "0 match no rule"}[
        command
    ] in (result.stdout + result.stderr)


@pytest.mark.usefixtures("interpreted", "spark")
def test_the_commands_of_the_tutorial_make_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generate_journal("journal", Kind.BACKOUT_MESSAGE, segments=1, rows=1, lane="ORDERS.BOQ")
    commands = [each.line for each in typed_on(TUTORIAL[-1]) if each.line.startswith("mqflow spark ")]

    ended = [Terminal(tmp_path).type(command) for command in commands]

    assert [0, 0] == [code for code, _ in ended], ended
    assert (tmp_path / "tables/silver").is_dir()


def test_the_actions_after_all_retries_are_compared_if_the_user_asks_for_that(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreted: None
) -> None:
    monkeypatch.chdir(tmp_path)
    letter = {"has_dlh": True, "dlh_reason": 2053, "dlh_dest_q": "ORDERS.IN", "msg_id": bytes(24), "msg_len": 8}
    schema = f"{ddl(Kind.DEAD_LETTER)}, ingest_date date"
    spark.createDataFrame([letter], schema).write.format("mqflow_delta").mode("append").save(
        str(tmp_path / "tables" / "bronze" / "dead_letter")
    )
    for name, second in (("rules.txt", "ACTION(DISCARD)"), ("other.txt", "ACTION(FWD) FWDQ(REVIEW)")):
        (tmp_path / name).write_text(f"REASON(MQRC_Q_FULL) ACTION(RETRY)\n{second}\n")
    asked = ("spark", "triage", "rules.txt", "--against", "other.txt", "--tables", "tables", "--master", "local[2]")

    first, every = typed(*asked), typed(*asked, "--retries")

    assert (0, 0) == (first.exit_code, every.exit_code), every.stderr
    assert "becomes" not in first.stdout
    assert "1 message: RETRY" in every.stdout
    assert "becomes RETRY" in every.stdout


def test_a_dry_run_as_of_a_time_counts_the_letters_that_had_landed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreted: None
) -> None:
    monkeypatch.chdir(tmp_path)
    letters = [
        {"has_dlh": True, "dlh_reason": 2053, "msg_id": bytes(24), "landed_ts": datetime(2026, 1, day, 6, tzinfo=UTC)}
        for day in (1, 2, 3)
    ]
    schema = f"{ddl(Kind.DEAD_LETTER)}, ingest_date date"
    spark.createDataFrame(letters, schema).write.format("mqflow_delta").mode("append").save(
        str(tmp_path / "tables" / "bronze" / "dead_letter")
    )
    (tmp_path / "rules.txt").write_text("REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(RETRY)\n")

    then = typed("spark", "triage", "rules.txt", "--tables", "tables", "--as-of", "2026-01-02T06:00")

    assert "2 match no rule" in then.stdout, then.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [(["report", "DEAD.LETTERS", "--tables", "tables"], 2, "QUEUEs are landed in a journal: name it with --journal."),
     (["report", "--journal", "nowhere", "--tables", "tables"], 2, "nowhere is not a journal"),
     (["report", "--tables", "tabels"], 2, "tabels: name the journal for its tables with --journal."),
     (["report", "--tables", "tables", "--journal", "j", "--as-of", "2026-01-01"], 2,
      "--as-of shows tables as they were: leave out --journal and the queues."),
     (["report", "--tables", "tables", "--as-of", "yesterday"], 2, "'yesterday' does not match the formats"),
     (["silver", "--tables", "tabels"], 2, "Directory 'tabels' does not exist."),
     (["silver", "--tables", "hdfs://host/tables"], 2, "folders of the scheme hdfs: are not supported. Use a path"),
     (["bronze", "--journal", "tables", "--tables", "viewfs:///tables"], 2, "the scheme viewfs: are not supported"),
     (["redrive", "--where", "true", "--tables", "gs://bucket/tables"], 2, "the scheme gs: are not supported"),
     (["gold", "--tables", "tabels"], 2, "Directory 'tabels' does not exist."),
     (["triage", "rules.txt", "--tables", "tabels"], 2, "Directory 'tabels' does not exist."),
     (["gold", "--tables", "tables", "--conf", "nonsense"], 2, "'nonsense' is not KEY=VALUE."),
     (["silver", "--tables", "tables", "--rules", "wrong.txt"], 1, "REASN"),
     (["triage", "missing.txt", "--tables", "tables"], 2, "missing.txt"),
     (["triage", "wrong.txt", "--tables", "tables", "--retries"], 2,
      "--retries compares two tables: name the other one with --against.")],
)  # fmt: skip
def test_one_sentence_refuses_a_wrong_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.txt").write_text("REASN(2053) ACTION(RETRY)\n")
    (tmp_path / "rules.txt").write_text("REASON(2053) ACTION(RETRY)\n")
    (tmp_path / "tables").mkdir()

    result = typed("spark", *arguments)

    assert code == result.exit_code, result.stderr
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
