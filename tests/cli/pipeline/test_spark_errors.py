"""Errors of Spark as who typed a command meets them: as Spark 4.2 said them, cut after the first lines of their tracebacks."""

import pytest

from mqflow.cli.pipeline.spark_errors import sentence_of

JAVA = "An error occurred while calling o184.collectToPython.\n: org.apache.spark.SparkException: "
AT = "\n\tat org.apache.spark.sql.execution.FileScanRDD$$anon$1.hasNext(FileScanRDD.scala:153)"
FILE = "/data/tables/bronze/dead_letter/ingest_date=2026-11-21/lane=DLQ/part-0.c000.snappy.parquet"


@pytest.mark.parametrize(
    ("said", "begins", "what_to_do"),
    [
        pytest.param(
            f"{JAVA}[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{FILE}. File does not exist. "
            f"It is possible the underlying files have been updated.{AT}",
            f"The file {FILE} of a table is missing.",
            "if its folder was moved, move it back",
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
            id="anything else that Java said",
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
def test_an_error_of_sparks_is_a_sentence_that_says_what_to_do(said: str, begins: str, what_to_do: str) -> None:
    sentence = sentence_of(said)

    assert sentence.startswith(begins)
    assert what_to_do in sentence
    assert "\n" not in sentence


def test_of_what_nobody_knows_there_is_no_sentence() -> None:
    assert "" == sentence_of("[SOMETHING] else")
