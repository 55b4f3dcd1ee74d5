"""Makes a "settle" span for each action of the DLQ handler, with the rule, the attempt and the reason of a failure.

The hook receives events, not messages. Therefore each span has a trace of its own, and begins and ends at the time of the
event. The span does not name the destination, because a rule can take that name from the content of the message.
"""

from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from mqflow.events import DeadLetterActed, Event
from mqflow.mqi.reason_codes import reason_name
from mqflow.otel.attributes import ERROR_TYPE, MESSAGE_ID, operation_attributes, operation_name
from mqflow.otel.spans import TraceSettings
from mqflow.otel.tracers import Tracers, unfailing
from mqflow.world import Clock

__all__ = ("DeadLetterSpans",)


class DeadLetterSpans:
    """A hook that makes a span for each action of the DLQ handler."""

    wants: Final = (DeadLetterActed,)

    def __init__(self, tracers: Tracers, settings: TraceSettings, clock: Clock) -> None:
        self._tracers = tracers
        self._settings = settings
        self._clock = clock

    @unfailing
    def __call__(self, event: Event) -> None:
        """Make a span for the event."""
        tracer = self._tracers.tracer()
        if tracer is None or not isinstance(event, DeadLetterActed):
            return
        attributes = {
            **operation_attributes("settle", event.queue),
            "mqflow.rule": event.rule or "none",
            "mqflow.action": type(event.intent).__name__.lower(),
            "mqflow.attempt": event.attempt,
        }
        if self._settings.message_ids:
            attributes[MESSAGE_ID] = event.message_id.hex()
        now_ns = int(self._clock.wall() * 1e9)
        span = tracer.start_span(
            operation_name("settle", event.queue), Context(), SpanKind.CLIENT, attributes, start_time=now_ns
        )
        if event.reason:
            span.set_attribute(ERROR_TYPE, reason_name(event.reason))
            span.set_status(Status(StatusCode.ERROR, reason_name(event.reason)))
        span.end(now_ns)
