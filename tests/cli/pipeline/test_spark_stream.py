"""`mqflow spark stream` without a Spark: its job, its sessions, its stages, its metrics, and its end."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqflow.cli.pipeline.progress_pages import PipelineProgress
from mqflow.cli.pipeline.stream_view import level_record
from mqflow.journal import Journal, JournalError
from mqflow.pipeline.stream.alert_sink import Command, Webhook
from mqflow.pipeline.stream.freshness import Level
from mqflow.pipeline.stream.runner import Ran, StageFailed, Waits
from mqflow.pipeline.stream.stages import Job
from mqflow.policy.stream.failures import Failure, Kind
from mqflow.policy.stream.rounds import Limits, Stage, Taken
from tests.cli.conftest import Run

LEVEL = Level(name="silver", rows=3, rows_behind=2, seconds_behind=61.5)
WORDS = ("spark", "stream", "--journal", "journal", "--tables", "made", "--json")
FAILED = StageFailed(Stage.SILVER, Failure(Kind.TRANSIENT, "disk_full"), 1, 2.0, OSError("no room"))


class Metrics:
    """The metrics that the command has counted."""

    def __init__(self, done: list[tuple[object, ...]]) -> None:
        self._done = done

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *each: self._done.append((name, *each))


class Stream:
    """The acts of the command in order, and the parts of the pipeline that it uses."""

    def __init__(self) -> None:
        self.done: list[tuple[object, ...]] = []
        self.jobs: list[Job] = []
        self.limits: Limits | None = None
        self.owes = False
        self.levels: list[Level] | Exception = [LEVEL]
        self._sessions = 0

    @contextmanager
    def started(self, name: str, **options: object) -> Iterator[int]:
        self._sessions += 1
        session = self._sessions
        self.done.append(("starts", session, name, options))
        yield session
        self.done.append(("ends", session))

    def begin_alerts(self, session: object, job: Job) -> None:
        self.jobs.append(job)
        self.done.append(("alerts", session))

    def run_stage(self, session: object, job: Job, stage: Stage) -> Taken:
        self.jobs.append(job)
        self.done.append((stage, session))
        return Taken(rows=7)

    def table_levels(self, journal: Journal, tables: str, now_us: int) -> list[Level]:
        assert (journal.folder.uri, tables) == (str(Path.cwd() / "journal"), str(Path.cwd() / "made"))
        assert 10**15 < now_us < 10**16  # microseconds of this century
        if isinstance(self.levels, Exception):
            raise self.levels
        return self.levels

    def keep_up(self, run: Any, *, renew_session: Any, limits: Limits, pause: Any, stopping: Any, tell: Any, **_: Any) -> bool:
        self.limits = limits
        tell(Ran(Stage.BRONZE, run(Stage.BRONZE), 1.5))
        run(Stage.SILVER)
        tell(FAILED)
        renew_session()
        run(Stage.GOLD)
        tell(Waits(3.0))
        was_stopping = stopping()
        signal.raise_signal(signal.SIGTERM)
        self.done.append(("stops", was_stopping, pause(60.0), stopping()))
        return self.owes


@pytest.fixture
def stream(run: Run, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Start no Spark, and change no table."""
    stream = Stream()
    monkeypatch.setattr("mqflow.cli.pipeline.spark_stream.started", stream.started)
    monkeypatch.setattr("mqflow.pipeline.stream.stages.begin_alerts", stream.begin_alerts)
    monkeypatch.setattr("mqflow.pipeline.stream.stages.run_stage", stream.run_stage)
    monkeypatch.setattr("mqflow.pipeline.stream.freshness.table_levels", stream.table_levels)
    monkeypatch.setattr("mqflow.pipeline.stream.runner.keep_up", stream.keep_up)
    monkeypatch.setattr(
        "mqflow.otel.configuration.stream_metrics", lambda _: (Metrics(stream.done), lambda: stream.done.append(("exports",)))
    )
    Journal.create(Path("journal"))
    Path("rules.tbl").write_text("ACTION(RETRY)")
    return stream


def test_the_stages_share_a_session_until_it_is_lost_and_sigterm_ends_the_stream(run: Run, stream: Stream) -> None:
    ended = run(*WORDS, "--master", "local[2]", "--conf", "a=b")

    options = {"master": "local[2]", "remote": None, "conf": ("a=b",)}
    assert (0, "") == (ended.exit_code, ended.stderr)
    assert [
        ("starts", 1, "stream", options),
        ("alerts", 1),
        (Stage.BRONZE, 1),
        (Stage.SILVER, 1),
        ("ends", 1),
        ("starts", 2, "stream", options),
        (Stage.GOLD, 2),
        ("stops", False, True, True),
        ("ends", 2),
    ] == stream.done
    level = {"event": "level", **level_record(LEVEL)}
    failed = {"failure": "disk_full", "kind": "transient", "failures": 1, "pause_s": 2.0}
    assert [
        {"event": "ran", "stage": "bronze", "rows": 7, "more": False, "seconds": 1.5, "said": ""},
        {"event": "failed", "stage": "silver", "error": "no room", **failed},
        level,
        {"event": "waits", "seconds": 3.0},
        level,
    ] == [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "job", "limits"),
    [pytest.param((), {}, Limits(), id="by default"),
     pytest.param((*("--rules", "rules.tbl", "--payload", "head:9", "--rows-per-round", "3", "--bytes-per-round", "4"),
          *("--alert-webhook", "https://desk/x", "--alert-command", f"{sys.executable} 'a b'"),
          *("--every", "5m", "--once", "--attempts", "2", "--consumer", "audit")),
         {"rules": "ACTION(RETRY)", "payload": "head:9", "consumer": "audit", "rows_max": 3, "bytes_max": 4,
          "senders": (Webhook("https://desk/x"), Command((sys.executable, "a b")))},
         Limits(every_s=300.0, once=True, attempts_max=2), id="with every option")],
)  # fmt: skip
def test_the_options_are_the_job_and_the_limits_of_the_stream(
    run: Run, stream: Stream, words: tuple[str, ...], job: dict[str, Any], limits: Limits
) -> None:
    assert 0 == run(*WORDS, *words).exit_code

    places: dict[str, Any] = {name: str(Path.cwd() / folder) for name, folder in (("journal", "journal"), ("tables", "made"))}
    by_default: dict[str, Any] = {"rows_max": 500_000, "bytes_max": 2**28}
    assert {Job(**places, **(by_default | job))} == set(stream.jobs)
    assert limits == stream.limits
    assert Path("made").is_dir()


def test_the_metrics_of_stages_and_tables_are_exported_if_the_settings_ask_for_telemetry(
    run: Run, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_TELEMETRY", "true")

    assert 0 == run(*WORDS).exit_code

    measured = ("measured", "silver", 2, 61.5)
    names = {"ran", "failed", "measured", "exports"}
    assert [("ran", Stage.BRONZE, 7, 1.5), ("failed", Stage.SILVER, "disk_full"), measured, measured, ("exports",)] == [
        each for each in stream.done if each[0] in names
    ]


def test_the_pages_of_a_stream_have_the_counts_of_its_stages_and_the_levels_of_its_tables(
    run: Run, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[str, PipelineProgress]] = []

    @contextmanager
    def serving(http: str, progress: PipelineProgress) -> Iterator[PipelineProgress]:
        served.append((http, progress))
        yield progress

    monkeypatch.setattr("mqflow.cli.pipeline.progress_pages.served_progress", serving)

    assert 0 == run(*WORDS, "--http", "8080").exit_code

    [(http, progress)] = served
    counts = {"stage_runs": {("bronze",): 1}, "stage_rows": {("bronze",): 7}, "stage_failures": {("silver", "disk_full"): 1}}
    levels = {"behind_rows": {("silver",): 2}, "behind_seconds": {("silver",): 61.5}, "waits_after_failure": {("silver",): 1}}
    assert ("8080", counts | levels) == (http, {name: series for name, series in progress.series().items() if series})


def test_alerts_that_nobody_took_are_an_error_and_an_unknown_lag_is_a_note(run: Run, stream: Stream) -> None:
    stream.owes, stream.levels = True, JournalError("no journal\x07")

    ended = run(*WORDS)

    lag = "The lag of the tables is unknown: no journal\\x07\n"
    owes = "Some alerts were not sent. Run the command again, and it sends them.\n"
    assert (1, lag + lag + owes) == (ended.exit_code, ended.stderr)
    assert ["ran", "failed", "waits"] == [json.loads(line)["event"] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--payload", "tail:9"), 2, "tail:9"),
        (("--alert-command", "no-such-program --now"), 2, "There is no program for 'no-such-program --now'."),
        (("--alert-command", "'open"), 2, "is not a command: No closing quotation."),
        (("--alert-command", " "), 2, "There is no program for ' '."),
        (("--alert-webhook", "ftp://desk"), 1, "The URL of the webhook must start with http:// or https://, and name a host."),
    ],
)
def test_a_stream_with_wrong_options_does_not_start(
    run: Run, stream: Stream, words: tuple[str, ...], code: int, why: str
) -> None:
    refused = run(*WORDS, *words)

    assert (code, [], False) == (refused.exit_code, stream.done, Path("made").exists())
    assert why in refused.stderr
