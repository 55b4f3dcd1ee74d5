"""What the telemetry tests stand on: the SDK's in-memory exporter and reader, and messages as plain records."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, field
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.otel import OpenTelemetry, TelemetrySettings
from mqflow.policy.disposition import Completed, Outcome

MESSAGE_ID = b"AMQ QM1         \x00\x00\x00\x00\x00\x00\x00\x01"


class Message(Struct, kw_only=True):
    """A message, in or out."""

    descriptor: MessageDescriptor = MessageDescriptor(message_id=MESSAGE_ID)
    body: bytes = b"{}"
    properties: dict[str, object] = field(default_factory=dict)
    queue: str = "ORDERS.OUT"


class Delivery(Struct, kw_only=True):
    """A message on its way to a handler."""

    message: Message
    queue: str = "ORDERS.IN"
    listener: str = "orders"


class StoppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def wall(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s


class Telemetry:
    """One `OpenTelemetry` and what it exported."""

    def __init__(self, settings: TelemetrySettings | None = None, *, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.clock = StoppedClock()
        self.hook = OpenTelemetry(
            settings,
            tracer_provider=provider,
            meter_provider=MeterProvider([self._reader]),
            clock=self.clock,
        )

    async def handle(self, message: Message, outcome: Outcome | Exception = Completed()) -> Outcome:  # noqa: B008 - frozen
        """Deliver a message to a handler that comes to this outcome, or raises."""

        async def handler(_: Delivery) -> Outcome:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return await self.hook.consume(Delivery(message=message), handler)

    async def put(self, message: Message, then: Callable[[Message], Awaitable[Any]] | None = None) -> dict[str, object]:
        """Put a message; return the properties it left with."""

        async def put(outgoing: Message) -> None:
            if then is not None:
                await then(outgoing)

        await self.hook.publish(message, put)
        return message.properties

    @property
    def spans(self) -> list[ReadableSpan]:
        """What was exported, in the order the spans ended."""
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        [found] = [span for span in self.spans if span.name == name]
        return found

    @property
    def metrics(self) -> dict[str, dict[frozenset[tuple[str, Any]], float]]:
        """What the meter reads now: name to attributes to value, without the system."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[frozenset[tuple[str, Any]], float]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = found.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        attributes = dict(point.attributes or {})
                        assert attributes.pop("messaging.system") == "ibm_mq"
                        points[frozenset(attributes.items())] = getattr(point, "value", 0.0)
        return found
