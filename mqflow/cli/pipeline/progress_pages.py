"""The HTTP pages of `mqflow land` and `mqflow spark stream`: /livez, /readyz, /metrics and /status. They are read only.

`PipelineProgress` has the counts and the levels. Any thread may write and read it. This file opens no queue and no table.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mqflow.app.errors import ConfigurationError
from mqflow.cli.pipeline.stream_view import level_record
from mqflow.cli.watching.counts import Counted
from mqflow.cli.watching.server import refusing_other_hosts, serving_pages
from mqflow.landing.lander import Landed
from mqflow.landing.landing_loop import Progress, Recovered, Troubled
from mqflow.pipeline.stream.freshness import Level
from mqflow.pipeline.stream.runner import Ran, StageFailed, StreamStep, said
from mqflow.world import Clock

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ("PROGRESS", "PipelineProgress", "count_lane", "count_stage", "pages_of", "served_progress")

PROGRESS: Final = {
    "lander_rows": Counted("counter", "Rows landed", ("lane",)),
    "lander_segments": Counted("counter", "Segments landed", ("lane",)),
    "lander_failures": Counted("counter", "Failures after which the lander tries again", ("lane",)),
    "stage_runs": Counted("counter", "Stages of the stream that succeeded", ("stage",)),
    "stage_rows": Counted("counter", "Rows that stages have taken", ("stage",)),
    "stage_failures": Counted("counter", "Stages that failed", ("stage", "failure")),
    "behind_rows": Counted("gauge", "Messages not in the journal, or rows a table lacks", ("step",)),
    "behind_seconds": Counted("gauge", "Seconds since the oldest of them was put or landed; no series if not known", ("step",)),
    "waits_after_failure": Counted("gauge", "1 while a lane or a stage waits for its next attempt", ("part",)),
}
"""The metrics of a pipeline command; their names here lack the prefix `mqflow_`."""

_Labels = tuple[str, ...]
_UNAVAILABLE: Final = 503


class PipelineProgress:
    """The counts of a pipeline command, and how far each of its steps is behind."""

    def __init__(self, clock: Clock, *, valid_s: float) -> None:
        """Make an empty record. After `valid_s` seconds, measured levels are too old to be shown."""
        self._clock: Final = clock
        self._valid_s: Final = valid_s
        self._counts: Final[dict[str, Counter[_Labels]]] = {name: Counter() for name in PROGRESS}
        self._measured: tuple[float, tuple[Level, ...]] = (0.0, ())
        #: For each lane or stage that waits for its next attempt: the reason.
        self.troubles: Final[dict[str, str]] = {}

    def add(self, name: str, number: int, *labels: str) -> None:
        """Add to a counter. Only one thread may add to the same labels."""
        self._counts[name][labels] += number

    def measured(self, levels: Sequence[Level]) -> None:
        """Record how far each step is behind now. An empty sequence means that this is not known."""
        self._measured = (self._clock.monotonic(), tuple(levels))

    def levels(self) -> tuple[Level, ...]:
        """Return the levels that were measured last; empty if they are too old."""
        at, levels = self._measured
        return levels if self._clock.monotonic() - at <= self._valid_s else ()

    def series(self) -> dict[str, dict[_Labels, float]]:
        """Return the values of each metric, by their labels."""
        found: dict[str, dict[_Labels, float]] = {name: dict(counts.copy()) for name, counts in self._counts.items()}
        levels = self.levels()
        found["behind_rows"] = {(each.name,): each.rows_behind for each in levels}
        found["behind_seconds"] = {(each.name,): each.seconds_behind for each in levels if each.seconds_behind is not None}
        found["waits_after_failure"] = {(part,): 1 for part in self.troubles.copy()}
        return found

    def report(self) -> dict[str, Any]:  # Any: the values of a JSON record
        """Return the record for /status."""
        counts = {
            name: [dict(zip(PROGRESS[name].labels, labels, strict=True)) | {"value": value} for labels, value in series.items()]
            for name, series in self.series().items()
            if PROGRESS[name].kind == "counter"
        }
        return {"levels": list(map(level_record, self.levels())), "counts": counts, "troubles": self.troubles.copy()}


def count_lane(pages: PipelineProgress, lane: str, progress: Progress) -> None:
    """Count the progress of a lane."""
    match progress:
        case Troubled(error):
            pages.add("lander_failures", 1, lane)
            pages.troubles[lane] = str(error)
        case Landed():
            pages.add("lander_rows", progress.rows, lane)
            pages.add("lander_segments", 1, lane)
        case Recovered():
            pages.troubles.pop(lane, None)


def count_stage(pages: PipelineProgress, event: StreamStep) -> None:
    """Count a step of the stream."""
    if isinstance(event, Ran):
        pages.add("stage_runs", 1, event.stage)
        pages.add("stage_rows", event.taken.rows, event.stage)
        pages.troubles.pop(event.stage, None)
    elif isinstance(event, StageFailed):
        pages.add("stage_failures", 1, event.stage, event.failure.name)
        pages.troubles[event.stage] = said(event.error)


def pages_of(progress: PipelineProgress) -> "Starlette":
    """Return the pages as an ASGI application."""
    import msgspec  # noqa: PLC0415 - with the others
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: PLC0415 - an extra
    from starlette.applications import Starlette  # noqa: PLC0415 - an extra
    from starlette.requests import Request  # noqa: PLC0415 - as above
    from starlette.responses import PlainTextResponse, Response  # noqa: PLC0415 - as above
    from starlette.routing import Route  # noqa: PLC0415 - as above

    from mqflow.cli.watching.metrics import CONTENT_TYPE_LATEST, open_metrics  # noqa: PLC0415 - needs the extra

    def families() -> Iterator[Metric]:
        for name, series in progress.series().items():
            known = PROGRESS[name]
            kind = CounterMetricFamily if known.kind == "counter" else GaugeMetricFamily
            family = kind(f"mqflow_{name}", known.meaning, labels=known.labels)
            for labels, value in series.items():
                family.add_metric(labels, value)
            yield family

    async def livez(request: Request) -> Response:  # noqa: ARG001 - the signature of starlette, on the event loop
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:  # noqa: ARG001 - as above
        why = [f"{part}: {text}" for part, text in progress.troubles.copy().items()]
        return PlainTextResponse("\n".join(why or ["ok"]) + "\n", _UNAVAILABLE if why else 200)

    async def metrics(request: Request) -> Response:  # noqa: ARG001 - as above
        return Response(open_metrics(tuple(families())), media_type=CONTENT_TYPE_LATEST)

    async def status(request: Request) -> Response:  # noqa: ARG001 - as above
        return Response(msgspec.json.encode(progress.report()), media_type="application/json")

    routes = {"/livez": livez, "/readyz": readyz, "/metrics": metrics, "/status": status}
    return Starlette(routes=[Route(path, page) for path, page in routes.items()])


@contextmanager
def served_progress(http: str, progress: PipelineProgress) -> Iterator[PipelineProgress]:
    """Serve the pages in the block. Yield the progress, which the caller must update.

    Raises `ConfigurationError`, with the port, if a package is missing or the port cannot be used.
    """
    try:
        pages = refusing_other_hosts(http, pages_of(progress))
    except ImportError as error:
        text = f"--http needs starlette, uvicorn and prometheus-client ({error.name} is missing): pip install 'mqflow[http]'."
        raise ConfigurationError(text) from error
    with serving_pages(http, pages, "Probes, metrics and status are on"):
        yield progress
