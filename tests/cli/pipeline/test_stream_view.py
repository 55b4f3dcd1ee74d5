"""The progress of `mqflow spark stream`, as lines, as JSON, and as a live table."""

import io
import json
import re
import sys

import pytest
from msgspec.structs import replace

from mqflow.cli.pipeline.spark_session import attempted
from mqflow.cli.pipeline.stream_view import level_cells, level_record, stream_view
from mqflow.pipeline.stream.freshness import Level
from mqflow.pipeline.stream.runner import Ran, StageFailed, StreamStep, Waits
from mqflow.policy.stream.failures import Failure, Kind
from mqflow.policy.stream.rounds import Stage, Taken

#: The codes of a terminal: colours, and movements of the cursor.
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LATE = Level(
    name="silver", rows=3_000, rows_behind=2_000, seconds_behind=61.23456, newest_landed_us=1_795_000_000_999_999,
    newest_event_us=1_795_000_001_000_000,
)  # fmt: skip
FRESH = Level(name="gold", rows=7, rows_behind=0, seconds_behind=None)
FAILURE = StageFailed(Stage.GOLD, Failure(Kind.TRANSIENT, "disk_full"), 2, 1.23456, OSError("no room\x07\nat line 7"))
TOLD: list[StreamStep] = [
    Ran(Stage.BRONZE, Taken(rows=2_000, more=True), 1.23456),
    Ran(Stage.ALERTS, Taken(rows=1, said="1 waits"), 0.06),
    Ran(Stage.GOLD, Taken(), 0.5),
    Ran(Stage.SILVER, Taken(said="rebuilt"), 2.0),
    FAILURE,
    Waits(29.96),
]


def test_lines_name_each_step_that_did_something(capsys: pytest.CaptureFixture[str]) -> None:
    with stream_view(as_json=False) as view:
        for event in TOLD:
            view.show(event)
        view.show_levels([LATE])

    assert (
        "",
        (
            "bronze: 2,000 rows in 1.2 s.\nalerts: 1 alerts sent in 0.1 s. 1 waits\nsilver: done in 2.0 s. rebuilt\n"
            "gold failed (disk_full, attempt 2): no room\\x07 Trying again in 1.2 s.\n"
        ),
    ) == capsys.readouterr()


def test_json_has_a_record_for_each_step_and_each_level(capsys: pytest.CaptureFixture[str]) -> None:
    with stream_view(as_json=True) as view:
        for event in (TOLD[0], FAILURE, TOLD[-1]):
            view.show(event)
        view.show_levels([LATE, FRESH])

    failed = {"failure": "disk_full", "kind": Kind.TRANSIENT.value, "failures": 2, "pause_s": 1.235}
    times = {"newest_landing": "2026-11-18T11:06:40Z", "newest_event": "2026-11-18T11:06:41Z"}
    assert [
        {"event": "ran", "stage": "bronze", "rows": 2_000, "more": True, "seconds": 1.235, "said": ""},
        {"event": "failed", "stage": "gold", "error": "no room\x07\nat line 7", **failed},
        {"event": "waits", "seconds": 29.96},
        {"event": "level", "step": "silver", "rows": 3_000, "rows_behind": 2_000, "seconds_behind": 61.235, **times},
        {"event": "level", **level_record(FRESH)},
    ] == [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_failure_after_which_the_stream_gives_up_promises_no_other_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        with stream_view(as_json=as_json) as view:
            view.show(replace(FAILURE, pause_s=None))

    shown = capsys.readouterr()
    assert "gold failed (disk_full, attempt 2): no room\\x07\n" == shown.err
    assert json.loads(shown.out)["pause_s"] is None


def test_an_unknown_time_is_null_in_json_and_empty_in_a_table() -> None:
    unknown = {"seconds_behind": None, "newest_landing": None, "newest_event": None}

    assert {"step": "gold", "rows": 7, "rows_behind": 0, **unknown} == level_record(FRESH)
    assert ("gold", "0", "unknown", "", "") == level_cells(FRESH)
    assert ("silver", "2,000", "1 min", "2026-11-18T11:06:40Z", "2026-11-18T11:06:41Z") == level_cells(LATE)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0 s"), (59.0, "59 s"), (60.0, "1 min"), (3_599.0, "60 min"), (3_600.0, "1.0 h"), (9e3, "2.5 h")],
)
def test_the_age_of_a_table_has_a_fitting_unit(seconds: float, expected: str) -> None:
    level = Level(name="gold", rows=0, rows_behind=1, seconds_behind=seconds)

    assert expected == level_cells(level)[2]


class Terminal(io.StringIO):
    """A text stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("with_rich", [True, False])
def test_a_terminal_has_a_live_table_if_rich_is_installed(monkeypatch: pytest.MonkeyPatch, *, with_rich: bool) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "100")
    if not with_rich:
        monkeypatch.setattr("mqflow.cli.pipeline.stream_view.find_spec", lambda _: None)

    with stream_view(as_json=False) as view:
        view.show(TOLD[0])
        at_once = shown.getvalue()
        for event in (TOLD[0], TOLD[1], replace(FAILURE, error=OSError("no [b]room[/x]\x07\nat line 7"))):
            view.show(event)
        view.show_levels([LATE])

    assert with_rich is ("2,000 rows taken, 0 alerts sent." in CONTROLS.sub("", at_once))
    failed = "gold failed (disk_full, attempt 2): no [b]room[/x]\\x07 Trying again in 1.2 s."
    if with_rich:
        levels = "silver 2,000 1 min 2026-11-18T11:06:40Z 2026-11-18T11:06:41Z"
        last = [" ".join(line.split()) for line in CONTROLS.sub("", shown.getvalue()).rpartition("step")[2].splitlines()]
        assert ["rows behind behind newest landing newest event", levels, failed, "4,000 rows taken, 1 alerts sent."] == last
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert with_rich is any("4,000 rows taken, 1 alerts sent." in line for line in lines)
    assert with_rich is any("silver 2,000 1 min 2026-11-18T11:06:40Z 2026-11-18T11:06:41Z" in line for line in lines)
    assert any(failed in line for line in lines)


def test_work_that_spark_could_not_start_is_tried_again_after_growing_pauses(capsys: pytest.CaptureFixture[str]) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - slow to import

    pauses: list[float] = []
    left = [PySparkException("Python worker failed to connect back.")] * 2

    def work() -> str:
        if left:
            raise left.pop()
        return "done"

    assert "done" == attempted(work, pause=pauses.append)
    assert [1.0, 2.0] == pauses
    said = "Spark's Python did not start, or ended: trying again in {} s ({} of 4 attempts).\n"
    assert said.format(1, 1) + said.format(2, 2) == capsys.readouterr().err
