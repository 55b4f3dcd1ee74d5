"""`mqflow spark status`, and the small parts of `mqflow spark`: attempts, sentences, sessions and pauses."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

from mqflow.cli.pipeline import spark_session, spark_upkeep
from mqflow.cli.pipeline.spark_session import attempted, spark_errors_as_sentences
from mqflow.cli.pipeline.spark_tables import _show_rows
from mqflow.journal import Journal, Kind
from mqflow.pipeline import PipelineError
from mqflow.pipeline.stream import freshness
from mqflow.pipeline.stream.freshness import Level
from mqflow.testing.journals import generate_journal
from tests.cli.conftest import Run

SILVER = Level(name="silver", rows=900, rows_behind=1_200, seconds_behind=61.0, newest_landed_us=1_800_000_000_000_000)
QUEUE = Level(name="queue IN", rows=7, rows_behind=7, seconds_behind=None)


@pytest.fixture
def asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return these levels; collect the arguments of each question."""
    seen: list[object] = []

    def tables(journal: Journal, uri: str, now_us: int) -> Sequence[Level]:
        seen.append((journal.id, uri))
        assert now_us > 1_700_000_000_000_000
        return [SILVER]

    def queues(connection: object, lanes: Sequence[object], now_us: int) -> Sequence[Level]:
        seen.append((connection, len(lanes)))
        assert now_us > 1_700_000_000_000_000
        return [QUEUE]

    monkeypatch.setattr(freshness, "table_levels", tables)
    monkeypatch.setattr(freshness, "queue_levels", queues)
    monkeypatch.setattr(spark_upkeep, "connected", nullcontext)
    generate_journal(Path("j"), Kind.PAYLOAD, segments=1, rows=5, lane="IN")
    Path("tables").mkdir()
    return seen


def test_the_status_is_a_table_of_the_steps_the_queues_first(run: Run, asked: list[object]) -> None:
    shown = run("spark", "status", "--journal", "j", "--tables", "tables", "--url", "embedded://QM1")

    journal = Journal.open(Path("j"))
    assert (0, "") == (shown.exit_code, shown.stderr)
    head, rule, *rows = shown.stdout.splitlines()
    assert ["step", "rows behind", "behind", "newest landing", "newest event"] == [
        part.strip() for part in head.split("  ") if part.strip()
    ]
    ends = [len(part) for part in rule.split("  ")]
    assert ["queue IN", "silver"] == [row[: ends[0]].strip() for row in rows]
    assert ["7", "1,200"] == [row[ends[0] + 2 :][: ends[1]].strip() for row in rows]
    assert all(row[ends[0] + 1 + ends[1]] != " " for row in rows)  # numbers are aligned to the right
    assert [(journal.id, str(Path.cwd() / "tables")), ("embedded://QM1", 1)] == asked


def test_a_script_reads_a_record_for_each_step_and_without_a_url_no_queue_is_asked(run: Run, asked: list[object]) -> None:
    shown = run("spark", "status", "--journal", "j", "--tables", "tables", "--json")

    assert ["silver"] == [json.loads(line)["step"] for line in shown.stdout.splitlines()]
    assert 1 == len(asked)


# -- the parts


class JavaError(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """An error of Spark with this text, and the traceback that the real error has after a call of Java."""

    def __init__(self, text: str, traceback: str = "") -> None:
        Exception.__init__(self, text)
        self._stackTrace = traceback

    def __str__(self) -> str:
        return str(self.args[0])


LOST = "Python worker failed to connect back."


def failing(*texts: str) -> Callable[[], str]:
    """Return work that fails with these texts, one after the other, and then succeeds."""
    left = iter(texts)

    def work() -> str:
        text = next(left, None)
        if text is not None:
            raise JavaError(text)
        return "done"

    return work


@pytest.mark.parametrize(("failures", "pauses"), [(0, []), (1, [1.0]), (3, [1.0, 2.0, 4.0])])
def test_work_is_tried_again_while_python_does_not_start(
    capsys: pytest.CaptureFixture[str], failures: int, pauses: list[float]
) -> None:
    waited: list[float] = []

    assert "done" == attempted(failing(*[LOST] * failures), pause=waited.append)

    said = "Spark's Python did not start, or ended: trying again in"
    assert pauses == waited
    assert [
        f"{said} {each:.0f} s ({n} of 4 attempts)." for n, each in enumerate(pauses, 1)
    ] == capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(("texts", "last", "pauses"), [([LOST] * 4, LOST, 3), (["bad plan", LOST], "bad plan", 0)])
def test_the_last_error_of_work_is_raised(texts: list[str], last: str, pauses: int) -> None:
    waited: list[float] = []

    with pytest.raises(JavaError, match=last):
        attempted(failing(*texts), pause=waited.append)

    assert pauses == len(waited)


def test_an_error_of_spark_is_a_sentence_or_stays_as_it_is() -> None:
    with pytest.raises(PipelineError, match="Spark has no room to write: No space left on device"), spark_errors_as_sentences():
        raise JavaError("java.io.IOException: No space left on device")
    with pytest.raises(JavaError, match="unknown"), spark_errors_as_sentences():
        raise JavaError("unknown")


def test_the_java_traceback_can_have_the_reason() -> None:
    error = JavaError("it failed", "Caused by: java.io.IOException: Disk quota exceeded")

    with pytest.raises(PipelineError, match="Disk quota exceeded"), spark_errors_as_sentences():
        raise error


def test_a_pause_between_two_looks_lasts_for_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(spark_session, "Event", lambda: SimpleNamespace(wait=waits.append))

    spark_session._wait(2.0)

    assert [2.0] == waits


def test_the_progress_of_a_copy_is_the_number_of_its_rows() -> None:
    seen: list[tuple[float, str]] = []

    class Bar:
        def reached(self, done: float, words: str) -> None:
            seen.append((done, words))

    _show_rows(Bar(), "payload", 2_000)

    assert [(2_000, "2,000 rows")] == seen
