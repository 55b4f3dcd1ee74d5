"""The HTTP pages of `mqflow land` and `mqflow spark stream`: lag, counts, readiness, and what is not known."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mqflow.cli.pipeline import progress_pages
from mqflow.cli.pipeline.progress_pages import PROGRESS, PipelineProgress, count_lane, count_stage, pages_of
from mqflow.landing.lander import Landed
from mqflow.landing.landing_loop import Recovered, Troubled
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.stream.freshness import Level
from mqflow.pipeline.stream.runner import Ran, StageFailed, Waits
from mqflow.policy.stream.failures import Failure, Kind
from mqflow.policy.stream.rounds import Stage, Taken
from mqflow.testing.virtual_clock import VirtualClock
from tests.cli.conftest import Run
from tests.cli.pipeline.test_land import DEFINED

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
LEVELS = (
    Level(name="queue IN", rows=7, rows_behind=7, seconds_behind=4.5),
    Level(name="silver", rows=9, rows_behind=2, seconds_behind=None),
)


async def asked(progress: PipelineProgress, page: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=pages_of(progress)), base_url="http://localhost") as client:
        return await client.get(page)


async def samples(progress: PipelineProgress) -> set[str]:
    """Return the lines of /metrics that are samples."""
    return {line for line in (await asked(progress, "/metrics")).text.splitlines() if not line.startswith("#")}


async def test_the_pages_show_what_lands_how_far_each_step_is_behind_and_why_a_lane_waits() -> None:
    progress = PipelineProgress(VirtualClock(), valid_s=30)
    progress.measured(LEVELS)
    for event in (Landed(1, 5, 100, 5), Troubled(error_for(Reason.GET_INHIBITED, "MQGET", "IN", "QM1"), 0.5)):
        count_lane(progress, "IN", event)

    troubled = await asked(progress, "/readyz")
    levels = await samples(progress)
    count_lane(progress, "IN", Recovered())

    assert {
        'mqflow_lander_rows_total{lane="IN"} 5.0',
        'mqflow_lander_segments_total{lane="IN"} 1.0',
        'mqflow_lander_failures_total{lane="IN"} 1.0',
        'mqflow_behind_rows{step="queue IN"} 7.0',
        'mqflow_behind_rows{step="silver"} 2.0',
        'mqflow_behind_seconds{step="queue IN"} 4.5',
        'mqflow_waits_after_failure{part="IN"} 1.0',
    } == levels
    assert 503 == troubled.status_code
    assert "MQRC_GET_INHIBITED (2016)" in troubled.text
    assert [(200, "ok\n")] * 2 == [
        (found.status_code, found.text) for found in [await asked(progress, page) for page in ("/readyz", "/livez")]
    ]
    status = (await asked(progress, "/status")).json()
    assert ["queue IN", "silver"] == [each["step"] for each in status["levels"]]
    assert ([{"lane": "IN", "value": 5}], {}) == (status["counts"]["lander_rows"], status["troubles"])


async def test_a_lag_that_is_not_known_is_no_zero() -> None:
    clock = VirtualClock()
    progress = PipelineProgress(clock, valid_s=30)
    before = await samples(progress)
    progress.measured(LEVELS)
    clock.advance(30)
    in_time = await samples(progress)
    clock.advance(1)

    assert (set(), 3, set()) == (before, len(in_time), await samples(progress))


async def test_a_stage_of_the_stream_is_counted_and_waits_after_a_failure() -> None:
    progress = PipelineProgress(VirtualClock(), valid_s=30)
    failed = StageFailed(Stage.SILVER, Failure(Kind.SESSION_LOST, "jvm_ended"), 1, 2.0, ValueError("the JVM is gone"))

    for event in (Ran(Stage.BRONZE, Taken(9), 1.0), failed, Waits(2.0)):
        count_stage(progress, event)
    waiting = await samples(progress)
    count_stage(progress, Ran(Stage.SILVER, Taken(), 1.0))

    counted = {
        'mqflow_stage_runs_total{stage="bronze"} 1.0',
        'mqflow_stage_rows_total{stage="bronze"} 9.0',
        'mqflow_stage_failures_total{failure="jvm_ended",stage="silver"} 1.0',
    }
    assert counted | {'mqflow_waits_after_failure{part="silver"} 1.0'} == waiting
    again = {'mqflow_stage_runs_total{stage="silver"} 1.0', 'mqflow_stage_rows_total{stage="silver"} 0.0'}
    assert counted | again == await samples(progress)


async def test_a_lander_serves_its_counts_and_the_lag_of_its_queues(
    run: Run, queues: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[PipelineProgress] = []

    @contextmanager
    def serving(http: str, progress: PipelineProgress) -> Iterator[PipelineProgress]:
        assert "8080" == http
        served.append(progress)
        yield progress

    monkeypatch.setattr(progress_pages, "served_progress", serving)
    assert 0 == run("mqsc", stdin=DEFINED).exit_code
    assert 0 == run("put", "ORDERS.IN", stdin="order").exit_code

    done = run("land", "ORDERS.IN", "--journal", "j", "--once", "--linger", "0ms", "--http", "8080")

    assert 0 == done.exit_code, done.stderr
    [progress] = served
    assert {
        'mqflow_lander_rows_total{lane="ORDERS.IN"} 1.0',
        'mqflow_lander_segments_total{lane="ORDERS.IN"} 1.0',
    } <= await samples(progress)
    assert ["queue ORDERS.IN"] == [level.name for level in progress.levels()]


def test_every_metric_of_a_pipeline_is_in_the_reference() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## The pipeline")[2]

    names = {f"mqflow_{name}{'_total' * (known.kind == 'counter')}" for name, known in PROGRESS.items()}
    assert names == set(re.findall(r"^\| `(mqflow_\w+)`", page, re.MULTILINE))
