"""`OpenTelemetry`: one middleware that makes spans, span events for backout decisions, and metrics. It is a hook too."""

from collections.abc import Coroutine
from typing import Any, Final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import Event, Hook
from mqflow.otel.decisions import DecisionSpans
from mqflow.otel.metrics import Metrics
from mqflow.otel.spans import DeadLetterSpans, ProcessSpans, PutSpans, TraceSettings
from mqflow.otel.tracers import Tracers
from mqflow.policy.poison.disposition import Outcome
from mqflow.tally import ListenerTally
from mqflow.verbs import Put
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("OpenTelemetry",)


class OpenTelemetry:
    """Makes traces and metrics of an application's deliveries and puts.

    `App(..., middleware=[telemetry])` registers the object as middleware and also as a hook, because `wants` names events.
    Without the provider parameters, the global providers of OpenTelemetry are used. Until a tracer provider is set, there are
    no spans, and no message gets a trace context. `clock` gives the times of spans that are made from events.
    Source: OpenTelemetry, "Semantic conventions for messaging systems".
    """

    wants: Final = (*DecisionSpans.wants, *Metrics.wants)  # `Metrics.wants` includes the event of `DeadLetterSpans`

    def __init__(
        self,
        settings: TraceSettings | None = None,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        settings = settings or TraceSettings()
        tracers = Tracers(tracer_provider)
        decisions = DecisionSpans(tracers, clock)
        self._metrics: Final = Metrics(meter_provider)
        hooks = (self._metrics, decisions, DeadLetterSpans(tracers, settings, clock))
        #: The hooks for each class of event. Only the metrics receive the events that every message causes.
        self._hooks: Final[dict[type[Event], tuple[Hook, ...]]] = {
            event: tuple(hook for hook in hooks if event in hook.wants) for event in self.wants
        }
        self._processes = ProcessSpans(tracers, settings, decisions)
        self._puts = PutSpans(tracers, settings)

    def consume(self, delivery: Incoming, call_next: Call) -> Coroutine[Any, Any, Outcome]:
        """Return the outcome of the handling, with a "process" span around it."""
        return self._processes.consume(delivery, call_next)

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return the result of the put, with a "put" span around it. The message gets the context of the span."""
        sent = await self._puts.publish(message, call_next)
        self._metrics.sent(message.queue)
        return sent

    def listener_tally(self, queue: str) -> ListenerTally:
        """Return the tally in which a listener counts the ordinary messages of this queue."""
        return self._metrics.listener_tally(queue)

    def __call__(self, event: Event) -> None:
        """Count the event. Make a span for a backout decision, or for an action of the DLQ handler."""
        for hook in self._hooks.get(type(event), ()):
            hook(event)
