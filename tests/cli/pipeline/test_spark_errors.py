"""Errors of Spark 4.2, cut after the first lines of their tracebacks, and their sentences for the user."""

import pytest

from mqflow.cli.pipeline.spark_errors import ATTEMPTS_MAX, pause_s, sentence_of

JAVA = "An error occurred while calling o184.collectToPython.\n: org.apache.spark.SparkException: "
AT = "\n\tat org.apache.spark.sql.execution.FileScanRDD$$anon$1.hasNext(FileScanRDD.scala:153)"
FILE = "/data/tables/bronze/dead_letter/ingest_date=2026-11-21/lane=DLQ/part-0.c000.snappy.parquet"


@pytest.mark.parametrize(
    ("error", "begins", "remedy"),
    [
        pytest.param(
            f"{JAVA}[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{FILE}. File does not exist. "
            f"It is possible the underlying files have been updated.{AT}",
            f"The file {FILE} of a table is missing.",
            "rebuild the table from the journal",
            id="a folder of tables that was moved",
        ),
        pytest.param(
            f"{JAVA}[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file://{FILE}. "
            "Data type mismatches when reading Parquet column [dlh_reason]. Expected Spark type int, actual Parquet type "
            f"BINARY. SQLSTATE: KD001{AT}",
            f"The file {FILE} of a table does not fit: dlh_reason is BINARY there, but must be int.",
            "rebuild the table from the journal in another folder",
            id="a file with other columns",
        ),
        pytest.param(
            f"[TASK_WRITE_FAILED] Task failed while writing rows\nCaused by: java.io.IOException: No space left on device{AT}",
            "Spark has no room to write: No space left on device.",
            "run the command again",
            id="a full disk",
        ),
        pytest.param(
            f"{JAVA}Job aborted due to stage failure: Task 0 failed 1 times{AT}",
            "Spark failed: Job aborted due to stage failure: Task 0 failed 1 times",
            "",
            id="any other error of Java",
        ),
        pytest.param(
            "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n  File ...\n"
            "mqflow.journal.errors.TornSegmentError: The segment S is damaged.",
            "The segment S is damaged.",
            "",
            id="an error of a worker",
        ),
    ],
)
def test_an_error_of_spark_is_a_sentence_with_the_remedy(error: str, begins: str, remedy: str) -> None:
    sentence = sentence_of(error)

    assert sentence.startswith(begins)
    assert remedy in sentence
    assert "\n" not in sentence


def test_an_unknown_error_has_no_sentence() -> None:
    assert "" == sentence_of("[SOMETHING] else")


NO_CONNECTION = "org.apache.spark.SparkException: Python worker failed to connect back."


@pytest.mark.parametrize(
    ("error", "pauses"),
    [
        (NO_CONNECTION, [1.0, 2.0, 4.0, None, None]),
        ("java.io.IOException: No space left on device", [None] * 5),
        ("[SOMETHING] else", [None] * 5),
    ],
)
def test_only_a_python_that_did_not_start_is_tried_again_up_to_four_times(error: str, pauses: list[float | None]) -> None:
    assert 4 == ATTEMPTS_MAX
    assert pauses == [pause_s(error, attempt) for attempt in range(1, 6)]
