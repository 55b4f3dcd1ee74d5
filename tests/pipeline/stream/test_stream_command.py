"""`mqflow spark stream` from a journal to gold and to the receivers of alerts, in the session of the tests."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from pyspark.sql import SparkSession

from mqflow.cli.main import main
from mqflow.cli.pipeline import spark_stream
from mqflow.journal import Journal, Kind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.pipeline import jobs
from mqflow.pipeline.stream import stages
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome
from mqflow.policy.stream.rounds import Stage, Taken
from mqflow.testing.journals import START_US, add_segment, generate_journal
from mqflow.verbs import Got
from tests.journal.files import path_of
from tests.pipeline.stream.test_alert_sink import KEEPS, receiving

MINUTE_US = 60_000_000
LANE = "MQFLOW.DISPOSITION"


def land(journal: Path | str, *outcomes: RecordOutcome, first: int, minute: int) -> None:
    """Land a segment with the record of a message for each outcome, all in one minute."""
    lane = Journal.create(journal).add_lane(LANE, Kind.DISPOSITION, queue=LANE, queue_manager="QM1")
    made = []
    for number, outcome in enumerate(outcomes, first):
        at = START_US + minute * MINUTE_US + number
        record = DispositionRecord(
            disp_id=f"{number}", event_ts=at, qmgr="QM1", queue="ORDERS.IN", handler="on_orders", consumer="c",
            msg_id=number.to_bytes(24), put_ts=at, get_ts=at, done_ts=at, backout_count=0, outcome=outcome,
            exc_class=None if outcome is RecordOutcome.COMMITTED else "ValueError",
        )  # fmt: skip
        body = disposition_record.to_bytes(record)
        made.append(Got(descriptor=MessageDescriptor(format=disposition_record.FORMAT), body=body, data_bytes=len(body)))
    add_segment(lane, made)


def stream(journal: Path | str, tables: Path | str, *more: str) -> tuple[Result, list[dict[str, Any]]]:
    arguments = ["spark", "stream", "--journal", str(journal), "--tables", str(tables), "--once", "--json", *more]
    result = CliRunner().invoke(main, arguments)
    return result, [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.timeout(900)
def test_a_stream_brings_all_tables_up_to_date_and_sends_a_new_alert_once_to_each_receiver(
    spark: SparkSession, tmp_path: Path, interpreted: None
) -> None:
    journal, tables, got = tmp_path / "journal", tmp_path / "tables", tmp_path / "got"
    (tmp_path / "program.py").write_text(KEEPS)
    land(journal, *[RecordOutcome.COMMITTED] * 60, first=0, minute=0)
    land(journal, *[RecordOutcome.DISCARDED] * 12, *[RecordOutcome.COMMITTED] * 8, first=60, minute=5)
    with receiving() as receiver:
        to = ("--alert-webhook", receiver.url, "--alert-command", f"{sys.executable} {tmp_path / 'program.py'} {got}")
        result, told = stream(journal, tables, *to)

    assert 0 == result.exit_code, result.output
    assert 1 == len(receiver.got), "the window of an hour has no history yet"
    assert {"queue": "ORDERS.IN", "handler": "on_orders", "messages": 20, "poisoned": 12}.items() <= receiver.got[0][1].items()
    assert receiver.keys == [line.partition(" ")[0] for line in got.read_text().splitlines()]
    assert {"bronze": 80, "alerts": 2} == {each["stage"]: each["rows"] for each in told if each.get("rows") and "stage" in each}
    levels = {each["step"]: (each["rows"], each["rows_behind"]) for each in told if each["event"] == "level"}
    assert dict.fromkeys((f"journal {LANE}", "bronze.disposition", "silver", "gold"), (80, 0)) == levels
    messages = jobs.table_set(tables, "silver").read(spark, "message").groupBy("final_outcome").count().collect()
    assert Counter(committed=68, discarded=12) == Counter({row["final_outcome"]: row["count"] for row in messages})


def test_a_permanent_failure_ends_the_command_with_a_sentence_and_a_code(tmp_path: Path, spark: SparkSession) -> None:
    assert spark  # the command uses this session
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=1, rows=5, lane="L")
    [segment] = Journal.open(tmp_path / "journal").lane("L").all_segments()
    path_of(segment).write_bytes(path_of(segment).read_bytes()[:-20])

    result, told = stream(tmp_path / "journal", tmp_path / "tables")

    assert 1 == result.exit_code, result.output
    assert "The stage bronze failed, and another attempt cannot succeed: " in result.stderr
    assert "damaged" in result.stderr
    assert "Traceback" not in result.stderr
    assert [("bronze", "permanent", 1)] == [(each["stage"], each["failure"], each["failures"]) for each in told]


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Errors that silver raises, one in each attempt, in a command without Spark and without pauses."""
    waiting: list[Exception] = []

    @contextmanager
    def started(*_: object, **__: object) -> Iterator[None]:
        yield None

    def run_stage(_spark: object, _job: object, stage: Stage) -> Taken:
        if stage is Stage.SILVER and waiting:
            raise waiting.pop(0)
        return Taken()

    monkeypatch.setattr(spark_stream, "started", started)
    monkeypatch.setattr(stages, "run_stage", run_stage)
    monkeypatch.setattr("mqflow.policy.stream.rounds.pause_s", lambda *_: 0.0)
    return waiting


def test_a_failure_that_passes_is_shown_and_does_not_change_the_exit_code(tmp_path: Path, failures: list[Exception]) -> None:
    Journal.create(tmp_path / "journal")
    failures += [RuntimeError("Python worker failed to connect back."), RuntimeError("ExecutorLostFailure (executor 1)")]

    result, told = stream(tmp_path / "journal", tmp_path / "tables")

    assert 0 == result.exit_code, result.output
    assert ["worker_did_not_connect", "executor_lost"] == [each["failure"] for each in told if each["event"] == "failed"]


class Exported(MetricExporter):
    """The names and values of the last export."""

    values: ClassVar[dict[tuple[str, str], float]] = {}

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0, **_: object) -> MetricExportResult:  # noqa: ARG002 - as the SDK calls it
        for metric in (each for of in metrics_data.resource_metrics for scope in of.scope_metrics for each in scope.metrics):
            for point in metric.data.data_points:
                self.values[metric.name, str(next(iter((point.attributes or {}).values())))] = getattr(point, "value", 0)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return timeout_millis >= 0

    def shutdown(self, timeout_millis: float = 0, **_: object) -> None:
        """Keep the values."""


def test_a_stream_exports_its_metrics_if_the_settings_ask_for_telemetry(
    tmp_path: Path, failures: list[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_TELEMETRY", "true")
    monkeypatch.setattr("mqflow.otel.configuration._exporter", lambda *_: Exported())
    generate_journal(tmp_path / "journal", Kind.DEAD_LETTER, segments=2, rows=5, lane="L")
    failures.append(RuntimeError("ExecutorLostFailure (executor 1)"))

    stream(tmp_path / "journal", tmp_path / "tables")

    assert 10 == Exported.values["mqflow.stream.rows_behind", "bronze.dead_letter"]
    assert 0 < Exported.values["mqflow.stream.seconds_behind", "bronze.dead_letter"]
    assert (1, 1) == (Exported.values["mqflow.stream.stages", "silver"], Exported.values["mqflow.stream.failures", "silver"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--journal", "nowhere"], "nowhere is not a journal"),
     (["--journal", "journal", "--every", "soon"], "'soon' is not a time span"),
     (["--journal", "journal", "--alert-webhook", "ftp://x"], "must start with http:// or https://"),
     (["--journal", "journal", "--alert-command", "no-such-program --now"], "There is no program for 'no-such-program --now'"),
     (["--journal", "journal", "--payload", "some"], "some")],
)  # fmt: skip
def test_a_wrong_option_is_one_sentence_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Journal.create(Path("journal"))

    result = CliRunner().invoke(main, ["spark", "stream", "--tables", "tables", *arguments])

    assert result.exit_code in {1, 2}
    assert sentence in result.stderr
    assert "Starting Spark" not in result.stderr
