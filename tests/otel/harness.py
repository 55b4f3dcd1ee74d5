"""Common parts of the telemetry tests: the SDK's in-memory exporter and reader, with deliveries and puts without a queue."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from mqflow.app.handlers.message import Message, PropertyValue
from mqflow.app.handlers.middleware import Incoming
from mqflow.app.handlers.outgoing_message import Outgoing
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.otel import OpenTelemetry, TraceSettings
from mqflow.policy.poison.disposition import Completed, Outcome
from mqflow.verbs import Put

MESSAGE_ID = b"AMQ QM1         \x00\x00\x00\x00\x00\x00\x00\x01"
DESCRIPTOR = MessageDescriptor(message_id=MESSAGE_ID)
COMPLETED = Completed()


def incoming(
    body: bytes = b"{}", properties: Mapping[str, Any] | None = None, descriptor: MessageDescriptor = DESCRIPTOR
) -> Message:
    """Return a message from ORDERS.IN with these properties in an RFH2."""
    message = _Propertied(descriptor, body, "ORDERS.IN")
    message.given = properties or {}
    return message


class _Propertied(Message):
    given: Mapping[str, PropertyValue]

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        return self.given


def outgoing(properties: Mapping[str, PropertyValue] | None = None, queue: str = "ORDERS.OUT") -> Outgoing:
    """Return a message to put."""
    return Outgoing(queue=queue, descriptor=MessageDescriptor(), body=b"{}", properties=properties or {})


class StoppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def wall(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_epoch(self) -> bytes:
        return bytes(16)


class Telemetry:
    """An `OpenTelemetry` and its exports."""

    def __init__(self, settings: TraceSettings | None = None, *, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self._providers = provider, MeterProvider([self._reader])
        self._settings = settings
        self.clock = StoppedClock()
        self.hook = self.another()

    def another(self) -> OpenTelemetry:
        """Return another `OpenTelemetry` with the same exports."""
        tracer_provider, meter_provider = self._providers
        return OpenTelemetry(self._settings, tracer_provider=tracer_provider, meter_provider=meter_provider, clock=self.clock)

    async def handle(self, *messages: Message, outcome: Outcome | BaseException = COMPLETED) -> Outcome:
        """Deliver messages to a handler that returns this outcome, or raises."""

        async def handler(_: Incoming) -> Outcome:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        return await self.around(handler, *messages)

    async def around(self, handler: Callable[[Incoming], Awaitable[Outcome]], *messages: Message) -> Outcome:
        """Deliver messages to this handler; without arguments, one message."""
        return await self.hook.consume(Incoming(messages or (incoming(),), "orders", None), handler)

    async def put(self, message: Outgoing | None = None, error: Exception | None = None) -> Mapping[str, PropertyValue]:
        """Put a message, with this error if there is one, and return its properties at the put."""
        left: list[Outgoing] = []

        async def put(message: Outgoing) -> Put:
            if error is not None:
                raise error
            left.append(message)
            return Put(descriptor=message.descriptor, resolved_queue=message.queue, resolved_queue_manager="QM1")

        await self.hook.publish(message or outgoing(), put)
        return left[0].properties

    @property
    def spans(self) -> list[ReadableSpan]:
        """The exported spans, in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        [found] = [span for span in self.spans if span.name == name]
        return found

    @property
    def metrics(self) -> dict[str, dict[frozenset[tuple[str, Any]], float]]:
        """The present metrics: name to attributes to value, without the messaging system."""
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
