"""The cost of telemetry for each message: an application with and without it, on the embedded queue manager in memory."""

from collections.abc import Sequence
from timeit import repeat
from typing import Any, Final

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from benchmarks.budgets import Bar
from benchmarks.consumption import framework
from benchmarks.samples import Pairs, Sample, interleaved
from benchmarks.transports import in_memory
from mqflow.events import Hook
from mqflow.otel import OpenTelemetry
from mqflow.otel.metrics import Metrics

__all__ = ("OBSERVING", "Observing", "observe", "sdk_us")

_UNIT_OF_WORK: Final = 32
_SPANS: Final = 10_000


class Observing(Struct, frozen=True):
    """A kind of telemetry, and the processor time that it may add to each message, in microseconds."""

    goal: int
    what: str
    added_us: Bar


_SAMPLED_OUT: Final = Observing(19, "traced, and the sampler says no", Bar(5.0, 4.0, at_most=True))
_SAMPLED: Final = Observing(19, "traced, every message, batched for export", Bar(30.0, 20.0, at_most=True))
_METRICS: Final = Observing(19, "metrics", Bar(1.0, 0.3, at_most=True))

OBSERVING: Final = (_SAMPLED_OUT, _SAMPLED, _METRICS)
"""Goal 19; its part about applications without telemetry is in the figures of goal 4."""


def observe(observing: Observing, messages: int, pairs: int) -> Pairs:
    """Return pairs of an application with this kind of telemetry and an application without telemetry."""

    def observed() -> Sample:
        middleware, hooks = _layers(observing)
        return framework(in_memory, messages, _UNIT_OF_WORK, middleware=middleware, hooks=hooks)

    return interleaved(observed, lambda: framework(in_memory, messages, _UNIT_OF_WORK), pairs)


def sdk_us() -> float:
    """Return the time of the SDK alone to start and end a span that is not sampled, in microseconds."""
    tracer = TracerProvider(sampler=ALWAYS_OFF).get_tracer("alone")
    return min(repeat(lambda: tracer.start_span("alone", Context()).end(), number=_SPANS, repeat=5)) / _SPANS * 1e6


def _layers(observing: Observing) -> tuple[Sequence[Any], Sequence[Hook]]:
    """Return the middleware and hooks of a kind of telemetry."""
    if observing is _METRICS:
        return [], [Metrics(MeterProvider())]
    telemetry = _traced(ALWAYS_ON if observing is _SAMPLED else ALWAYS_OFF)
    return [telemetry], [telemetry]


def _traced(sampler: Sampler) -> OpenTelemetry:
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    return OpenTelemetry(tracer_provider=provider, meter_provider=NoOpMeterProvider())


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the interface's
        return SpanExportResult.SUCCESS
