"""`OpenTelemetry`: spans, decision events and metrics as one thing to give to an application, as middleware and as hook."""

from collections.abc import Coroutine
from typing import Any, Final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.handlers.outgoing import Outgoing, Send
from mqflow.events import Event, Hook
from mqflow.otel.dead_letters import DeadLetterSpans
from mqflow.otel.decisions import DecisionSpans
from mqflow.otel.metrics import Metrics
from mqflow.otel.middleware import ProcessSpans, PutSpans
from mqflow.otel.settings import TraceSettings
from mqflow.otel.tracers import Tracers
from mqflow.policy.poison.disposition import Outcome
from mqflow.verbs import Put
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("OpenTelemetry",)


class OpenTelemetry:
    """Traces and counts what an application does with messages.

    Middleware and hook at once: `App(..., middleware=[telemetry], hooks=[telemetry])`. The providers are OpenTelemetry's global
    ones unless given; as long as no tracer provider is set, nothing is traced and no message carries a trace context. `clock`
    stamps what is told after the fact. Source: OpenTelemetry, "Semantic conventions for messaging systems".
    """

    wants: Final = (*DecisionSpans.wants, *Metrics.wants)  # which has those of DeadLetterSpans

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
        #: Who wants which event: most are of every message, and for the metrics alone.
        self._hooks: Final[dict[type[Event], tuple[Hook, ...]]] = {
            event: tuple(hook for hook in hooks if event in hook.wants) for event in self.wants
        }
        self._processes = ProcessSpans(tracers, settings, decisions)
        self._puts = PutSpans(tracers, settings)

    def consume(self, delivery: Incoming, call_next: Call) -> Coroutine[Any, Any, Outcome]:
        """Return what the handling comes to, with a "process" span around it."""
        return self._processes.consume(delivery, call_next)

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return what the put returned, with a "put" span around it, whose context leaves with the message."""
        sent = await self._puts.publish(message, call_next)
        self._metrics.sent(message.queue)
        return sent

    def __call__(self, event: Event) -> None:
        """Count the event; write a backout decision down when its end is known."""
        for hook in self._hooks.get(type(event), ()):
            hook(event)
