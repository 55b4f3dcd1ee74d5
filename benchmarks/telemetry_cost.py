"""Goal 19: the cost of telemetry and of the decision ledger for each message, in memory, in units of work of 1 and of 32."""

import sys
from collections.abc import Iterator, Sequence
from time import process_time
from timeit import repeat
from types import SimpleNamespace
from typing import Any, Final, cast

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from benchmarks.consumption import framework
from benchmarks.effort import Effort, print_tables
from benchmarks.machine import wait_for_idle
from benchmarks.samples import Sample, interleaved
from benchmarks.tables import Bar, Row, Table
from benchmarks.transports import in_memory
from mqflow.cli.watching.counts import EventCounts
from mqflow.events import Hook
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.otel import OpenTelemetry
from mqflow.otel.metrics import Metrics
from mqflow.runtime.hooks import Broadcast, LogEvents
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.listener_state import ListenerState
from mqflow.runtime.listener.worker_events import WorkerEvents
from mqflow.verbs import Got

__all__ = ("OBSERVING", "Observing", "observe", "off_us", "sdk_us", "tables")

#: The default unit of work of a listener, and a large one.
_UNITS_OF_WORK: Final = (1, 32)
_MESSAGES: Final = 16_000
#: Work on the event loop alone is compared in many short samples, because it takes less time than the noise of long ones.
_FEW_MESSAGES: Final = 2_000
_SHORT_PAIRS: Final = 20
_CALLS: Final = 10_000


class Observing(Struct, frozen=True):
    """A kind of telemetry, and the processor time that it may add to each message, in microseconds."""

    what: str
    #: None if this kind has no bar.
    added_us: Bar | None
    #: True if no other thread has a part of the work.
    is_on_loop: bool = False


_OFF: Final = Bar(0.5, 0.2, at_most=True)
_SAMPLED_OUT: Final = Observing("traced, and the sampler says no", Bar(5.0, 4.0, at_most=True), is_on_loop=True)
_SAMPLED: Final = Observing("traced, every message, batched for export", Bar(30.0, 20.0, at_most=True))
_METRICS: Final = Observing("metrics", Bar(1.0, 0.3, at_most=True), is_on_loop=True)
_COUNTS: Final = Observing("the counts of `mqflow run --http`", Bar(1.0, 0.3, at_most=True), is_on_loop=True)
_TROUBLED: Final = Observing("the decision ledger with troubled messages only, as by default", None)
_ALL: Final = Observing("the decision ledger with every delivery", Bar(10.0, 5.0, at_most=True))

OBSERVING: Final = (_SAMPLED_OUT, _SAMPLED, _METRICS, _COUNTS, _TROUBLED, _ALL)


def tables(effort: Effort) -> Iterator[Table]:
    """Measure the cost without telemetry, and of every kind of telemetry, and yield one table."""
    rows = [_row_without(unit_of_work) for unit_of_work in _UNITS_OF_WORK]
    rows += [observe(observing, unit_of_work, effort) for observing in OBSERVING for unit_of_work in _UNITS_OF_WORK]
    yield Table(
        title="Processor time that telemetry adds to each message",
        before=(
            "The table compares applications with the same application without telemetry and without a ledger, on the "
            'embedded queue manager in memory. The SDK\'s exporter sends nothing. In the rows "no telemetry", a worker asks '
            "for each unit of work whether a hook wants its events. The applications with and without telemetry run in "
            "turns, in pairs. The figure is the median of the differences of the pairs. The true median is in the "
            "given interval with a probability of about 95 %."
        ),
        columns=("pairs", "interval"),
        figure="added",
        rows=rows,
        after=f"The SDK alone takes {sdk_us():.1f} µs to start and end a span that is not sampled.",
    )


def observe(observing: Observing, unit_of_work: int, effort: Effort) -> Row:
    """Compare an application with this kind of telemetry with an application without telemetry."""
    effort.say(f"goal 19, {observing.what}, unit of work {unit_of_work}")
    messages = effort.scaled(_FEW_MESSAGES if observing.is_on_loop else _MESSAGES, least=unit_of_work)

    def observed() -> Sample:
        if observing in (_TROUBLED, _ALL):
            return framework(in_memory, messages, unit_of_work, record="all" if observing is _ALL else "troubled")
        middleware, hooks = _layers(observing)
        watched = observing is _COUNTS
        return framework(in_memory, messages, unit_of_work, middleware=middleware, hooks=hooks, record=None, watched=watched)

    busy = wait_for_idle(effort.patience_s)
    count = effort.pairs * _SHORT_PAIRS if observing.is_on_loop else effort.pairs
    pairs = interleaved(observed, lambda: framework(in_memory, messages, unit_of_work, record=None), count)
    added_us, least_us, most_us = pairs.differences_us
    name = f"{observing.what}, unit of work {unit_of_work}"
    cells = (str(count), f"{least_us:.2f} to {most_us:.2f} µs")
    return Row(goal=19, name=name, figure=added_us, unit="µs", bar=observing.added_us, cells=cells, busy=busy)


def _row_without(unit_of_work: int) -> Row:
    name = f"no telemetry, unit of work {unit_of_work}"
    return Row(goal=19, name=name, figure=off_us(unit_of_work), unit="µs", bar=_OFF, cells=("", ""))


def off_us(unit_of_work: int) -> float:
    """Return the processor time to report the events of a message if no hook wants these events, in microseconds."""
    state = SimpleNamespace(broadcast=Broadcast((LogEvents(),)), tallies=(), spec=SimpleNamespace(queue="Q", name="Q"))
    events = WorkerEvents(cast("ListenerState", state), 0)
    got = Got(descriptor=MessageDescriptor(), body=b"", data_bytes=0)
    deliveries = [Delivery(got, "Q", "Q", cast("Any", None)) for _ in range(unit_of_work)]

    def report() -> None:
        events.delivered(deliveries)
        events.completed(deliveries, 0.0)

    return min(repeat(report, timer=process_time, number=_CALLS, repeat=5)) / _CALLS / unit_of_work * 1e6


def sdk_us() -> float:
    """Return the processor time of the SDK alone to start and end a span that is not sampled, in microseconds."""
    tracer = TracerProvider(sampler=ALWAYS_OFF).get_tracer("alone")

    def end_a_span() -> None:
        tracer.start_span("alone", Context()).end()

    return min(repeat(end_a_span, timer=process_time, number=_CALLS, repeat=5)) / _CALLS * 1e6


def _layers(observing: Observing) -> tuple[Sequence[Any], Sequence[Hook]]:
    """Return the middleware and hooks of a kind of telemetry."""
    if observing is _METRICS:
        return [], [Metrics(MeterProvider())]
    if observing is _COUNTS:
        return [], [EventCounts()]
    telemetry = _traced(ALWAYS_ON if observing is _SAMPLED else ALWAYS_OFF)
    return [telemetry], [telemetry]


def _traced(sampler: Sampler) -> OpenTelemetry:
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    return OpenTelemetry(tracer_provider=provider, meter_provider=NoOpMeterProvider())


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the interface's
        return SpanExportResult.SUCCESS


if __name__ == "__main__":
    sys.exit(print_tables(tables, "python -m benchmarks.telemetry_cost", __doc__, sys.argv[1:]))
