"""A Python of Spark that starts too slowly, or ends, does not end a command permanently."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mqflow.cli.pipeline.spark_errors import ATTEMPTS_MAX, pause_s
from mqflow.cli.pipeline.spark_session import attempted, spark_errors_as_sentences
from mqflow.pipeline import PipelineError, register
from tests.long import LONG

SLOW = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"
ENDED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
TIMED_OUT = "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back after 60000 ms"


def failing(times: int, text: str) -> tuple[Callable[[], str], list[float]]:
    """Return work that fails so often, and the list of its attempts."""
    attempts: list[float] = []

    def work() -> str:
        attempts.append(0.0)
        if len(attempts) <= times:
            raise PySparkException(text)
        return "done"

    return work, attempts


@pytest.mark.parametrize("text", [SLOW, ENDED, TIMED_OUT])
def test_work_whose_python_does_not_start_is_tried_again_after_growing_pauses(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    work, attempts = failing(2, text)
    pauses: list[float] = []

    assert "done" == attempted(work, pause=pauses.append)
    assert (3, [1.0, 2.0]) == (len(attempts), pauses)
    assert "trying again in 2 s" in capsys.readouterr().err


def test_the_attempts_are_bounded_and_the_last_error_says_what_to_do() -> None:
    work, attempts = failing(100, SLOW)

    told = r"did not start in time.*nothing is lost.*--master local\[2\]"
    with pytest.raises(PipelineError, match=told), spark_errors_as_sentences():
        attempted(work, pause=lambda _: None)
    assert ATTEMPTS_MAX == len(attempts)


def test_another_error_is_not_tried_again() -> None:
    work, attempts = failing(1, "[PATH_NOT_FOUND] Path does not exist")

    with pytest.raises(PySparkException, match="PATH_NOT_FOUND"):
        attempted(work, pause=lambda _: None)
    assert 1 == len(attempts)
    assert None is pause_s("ValueError: planted", 1)


def test_a_worker_that_ended_with_its_session_is_not_tried_again_in_that_session() -> None:
    assert None is pause_s(f"{ENDED}\nPy4JNetworkError: Answer from Java side is empty", 1)


@pytest.fixture
def slow_once(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A Python whose first reader of a stream starts after more than Spark's ten seconds."""
    python, started = tmp_path / "python", tmp_path / "started"
    planted = f'case "$*" in *streaming*) echo >>{started}; [ $(wc -l <{started}) -gt 1 ] || sleep 12;; esac'
    python.write_text(f'#!/bin/sh\n{planted}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(python)
    register(spark)  # the formats keep the Python that runs them
    yield started
    spark.sparkContext.pythonExec = before
    register(spark)


@LONG
def test_a_stream_whose_python_starts_too_slowly_reads_everything_at_the_next_attempt(
    spark: SparkSession, slow_once: Path, journal: Path, tmp_path: Path
) -> None:
    notes: list[float] = []

    def work() -> None:
        rows = spark.readStream.format("mqflow_journal").load(str(journal))
        writer = rows.select("body").writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "table")).awaitTermination()

    attempted(work, pause=notes.append)

    assert [1.0] == notes[:1], "the first attempt was not too slow"
    assert len(notes) + 1 == len(slow_once.read_text().splitlines())
    assert 100 == spark.read.parquet(str(tmp_path / "table")).count()
