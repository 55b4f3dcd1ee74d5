"""The metrics of an application in the OpenMetrics format, from its status and the figures of its queues."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from mqflow.cli.watching.control import QueueFigures
from mqflow.cli.watching.counts import COUNTED
from mqflow.policy.health.judge import judge
from mqflow.policy.health.records import ApplicationStatus, Doing, Series

__all__ = ("CONTENT_TYPE_LATEST", "PROCESS", "STATES", "exposed", "families", "open_metrics")

STATES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "up": ("Processes of the application that answer", ()),
    "processes_expected": ("Processes of the application that must run", ()),
    "live": ("1 while /livez says that the application is alive", ()),
    "ready": ("1 while every listener of every process has its queue open and no worker is stuck", ()),
    "workers": ("Workers by their present activity", ("queue", "listener", "doing")),
    "in_flight": ("Units of work that are in a handler, or whose commit has not ended", ("queue", "listener")),
    "workers_stuck": ("Workers whose present activity takes longer than its limit", ("listener",)),
    "listener_paused": ("1 while the listener pauses in a process", ("queue", "listener")),
    "queue_depth": ("Messages on the queue (CURDEPTH)", ("queue",)),
    "oldest_message_age_seconds": ("Age of the oldest message (MSGAGE); no series if it is not known", ("queue",)),
}
"""The gauges that are made from the status: meaning and labels. Their names here lack the prefix `mqflow_`."""

PROCESS: Final = "process"
"""The label with the number of the worker process, for each count; 0 if there is only one process. The counts of a process
begin at 0 when it starts again. Prometheus notices that in the series of one process, but not in a sum over several
processes."""

_PREFIX: Final = "mqflow_"


def exposed(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> bytes:
    """Return the metrics of the application as text in the OpenMetrics format."""
    return open_metrics(tuple(families(status, queues)))


def open_metrics(found: Sequence[Metric]) -> bytes:
    """Return these metric families as text in the OpenMetrics format."""

    class Once(CollectorRegistry):
        def collect(self) -> Iterable[Metric]:
            return found

    text: bytes = generate_latest(Once())  # type: ignore[no-untyped-call]  # prometheus-client has no type for it
    return text


def families(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> Iterator[Metric]:
    """Yield the metric families: the gauges of the status, then the counts of each process."""
    rows = _levels(status, queues)
    for name, (meaning, labels) in STATES.items():
        family = GaugeMetricFamily(_PREFIX + name, meaning, labels=labels)
        for values, value in rows.get(name, ()):
            family.add_metric(values, value)
        yield family
    for name, counted in COUNTED.items():
        labels = (*counted.labels, PROCESS)
        every = [(str(process.number), process.counts.get(name, ())) for process in status.processes]
        match counted.kind:
            case "histogram":
                yield _histogram(name, counted.meaning, labels, every)
            case "counter":
                counter = CounterMetricFamily(_PREFIX + name, counted.meaning, labels=labels)
                for number, series in every:
                    for values, value in series:
                        counter.add_metric((*values, number), value)
                yield counter
            case _:
                gauge = GaugeMetricFamily(_PREFIX + name, counted.meaning, labels=labels)
                for number, series in every:
                    for values, value in series:
                        gauge.add_metric((*values, number), value)
                yield gauge


def _levels(status: ApplicationStatus, queues: Sequence[QueueFigures]) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    health = judge(status)
    doing: Counter[tuple[str, str, str]] = Counter()
    in_flight: Counter[tuple[str, str]] = Counter()
    paused: dict[tuple[str, str], float] = {}
    for process in status.processes:
        for listener in process.listeners:
            of = (listener.queue, listener.name)
            paused[of] = max(paused.get(of, 0.0), float(bool(listener.paused)))
            for each in Doing:
                doing[*of, each.value] += 0
            in_flight[of] += 0
            for worker in listener.workers:
                doing[*of, worker.doing.value] += 1
                in_flight[of] += worker.doing in {Doing.HANDLING, Doing.SETTLING}
    stuck = Counter((each.listener,) for each in health.stuck)
    return {
        "up": [((), len(status.processes))],
        "processes_expected": [((), status.expected)],
        "live": [((), health.live)],
        "ready": [((), health.ready)],
        "workers": [(labels, number) for labels, number in doing.items()],
        "in_flight": [(labels, number) for labels, number in in_flight.items()],
        "workers_stuck": [(labels, number) for labels, number in stuck.items()],
        "listener_paused": list(paused.items()),
        "queue_depth": [((each.queue,), each.depth) for each in queues if each.depth is not None],
        "oldest_message_age_seconds": [
            ((each.queue,), each.oldest_message_age_s) for each in queues if each.oldest_message_age_s is not None
        ],
    }


def _histogram(name: str, meaning: str, labels: tuple[str, ...], every: Iterable[tuple[str, Series]]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(_PREFIX + name, meaning, labels=labels)
    for number, series in every:
        for values, rows in groupby(series, key=lambda row: row[0][:-1]):
            by_bound = {row[0][-1]: row[1] for row in rows}
            seconds = by_bound.pop("sum")
            total, buckets = 0.0, list[tuple[str, float]]()
            for bound in sorted(by_bound, key=float):
                total += by_bound[bound]
                buckets.append((bound, total))
            family.add_metric((*values, number), buckets, sum_value=seconds)
    return family
