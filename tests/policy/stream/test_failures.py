"""The failures that deserve another attempt, each with the text that Spark, py4j, gRPC or a store gives."""

import pytest

from mqflow.policy.stream.failures import FAILURES, PERMANENT, Kind, classify, words_of

TEXTS = {
    # spark/core PythonWorkerFactory: thrown when a Python does not connect within spark.python.authenticate.socketTimeout
    "org.apache.spark.SparkException: Python worker failed to connect back.": (Kind.TRANSIENT, "worker_did_not_connect"),
    "java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back": (
        Kind.TRANSIENT,
        "worker_did_not_connect",
    ),
    # spark/core PythonRunner: the end of the stream was reached before the end of the data
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)": (Kind.TRANSIENT, "worker_ended"),
    # spark/core TaskEndReason.ExecutorLostFailure
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 137": (
        Kind.TRANSIENT,
        "executor_lost",
    ),
    # spark/core FetchFailedException and MetadataFetchFailedException
    "org.apache.spark.shuffle.FetchFailedException: Failed to connect to host/10.0.0.1:43211": (Kind.TRANSIENT, "fetch_failed"),
    "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location": (Kind.TRANSIENT, "fetch_failed"),
    # spark/core RpcTimeoutException
    "org.apache.spark.rpc.RpcTimeoutException: Futures timed out after [120 seconds].": (Kind.TRANSIENT, "rpc_timeout"),
    # Linux, ENOSPC
    "java.io.IOException: No space left on device": (Kind.TRANSIENT, "disk_full"),
    # Amazon S3, "Error responses"
    "Generic S3 error: SlowDown: Please reduce your request rate.": (Kind.TRANSIENT, "store_busy"),
    "The object store refused to write s3://b/x: 503 Service Unavailable": (Kind.TRANSIENT, "store_busy"),
    "error sending request: operation timed out": (Kind.TRANSIENT, "timeout"),
    # mqflow: `TableSet.busy`, and the commit of a Delta table with transactions
    "PipelineError: Another process writes the tables in /tables/silver: it changed attempt during this run.": (
        Kind.TRANSIENT,
        "tables_busy",
    ),
    "SinkError: mqflow_delta: the log of the table t has 4 for A, not 3: another program writes the same rows.": (
        Kind.TRANSIENT,
        "tables_busy",
    ),
    # py4j: the JVM has ended
    "Py4JNetworkError: Answer from Java side is empty": (Kind.SESSION_LOST, "jvm_ended"),
    "ConnectionRefusedError: [Errno 111] Connection refused": (Kind.SESSION_LOST, "jvm_ended"),
    "Py4JError: org.apache.spark.sql.classic.SparkSession$ does not exist in the JVM": (Kind.SESSION_LOST, "jvm_ended"),
    "An error occurred while trying to connect to the Java server (127.0.0.1:40001)": (Kind.SESSION_LOST, "jvm_ended"),
    # spark/core SparkContext
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.": (Kind.SESSION_LOST, "context_stopped"),
    "Job 3 cancelled because SparkContext was shut down": (Kind.SESSION_LOST, "context_stopped"),
    # Spark Connect: error-conditions.json, and gRPC's status of a server that is away
    "[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid. Session was closed.": (Kind.SESSION_LOST, "connect_session_closed"),
    "SparkConnectGrpcException: <_InactiveRpcError of RPC: status = StatusCode.UNAVAILABLE>": (
        Kind.SESSION_LOST,
        "connect_unavailable",
    ),
    # The errors of data and of settings stay: only a person can change them.
    "TornSegmentError: The segment 000000000001-20-9f3a1c22.arrow is damaged": (Kind.PERMANENT, "permanent"),
    "AnalysisException: [UNRESOLVED_COLUMN] A column with name `x` cannot be resolved.": (Kind.PERMANENT, "permanent"),
    "RulesError: REASN": (Kind.PERMANENT, "permanent"),
    "": (Kind.PERMANENT, "permanent"),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.items(), ids=range(len(TEXTS)))
def test_the_text_of_a_failure_decides_whether_another_attempt_can_help(text: str, expected: tuple[Kind, str]) -> None:
    found = classify(f"PySparkException: Job aborted\n{text}\n\tat org.apache.spark")

    assert expected == (found.kind, found.name)


def test_a_dead_session_counts_before_the_failure_of_a_task_in_the_same_text() -> None:
    found = classify("Python worker exited unexpectedly\nPy4JNetworkError: Answer from Java side is empty")

    assert Kind.SESSION_LOST is found.kind


def test_every_failure_of_the_table_is_the_first_match_of_some_text() -> None:
    assert {failure for _, failure in FAILURES} | {PERMANENT} == {classify(text) for text in TEXTS}


def test_the_words_of_a_failure_are_found_behind_those_of_a_failure_that_counts_first() -> None:
    text = "Py4JNetworkError: Answer from Java side is empty\njava.io.IOException: No space left on device\n"

    assert "No space left on device" == words_of(text, "worker_ended", "disk_full")
    assert "" == words_of(text, "worker_ended")
