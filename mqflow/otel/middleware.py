"""Spans around handlers and around puts, and the trace context that travels between them in message properties.

Sees each delivery and each put as any middleware does. Decides nothing, changes nothing but the properties of what is put, and
never fails a message: what it raises is logged, and the message goes on untraced.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final, Protocol, TypeVar

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Status, StatusCode, set_span_in_context

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import reason_name
from mqflow.otel import carrier
from mqflow.otel.attributes import BODY_SIZE, CORRELATION_ID, ERROR_TYPE, MESSAGE_ID, error_type, operation_attributes
from mqflow.otel.decisions import DecisionSpans
from mqflow.otel.settings import TelemetrySettings
from mqflow.otel.tracers import Tracers, unfailing
from mqflow.policy.disposition import Completed, Failed, Interrupted, Outcome, Undecodable
from mqflow.policy.outcomes import outcome_of

__all__ = ("Handling", "Incoming", "Outgoing", "ProcessSpans", "PutSpans")

_CANCELLED: Final = Interrupted("cancelled")
_PutT = TypeVar("_PutT", bound="Outgoing")
_SentT = TypeVar("_SentT")


class Incoming(Protocol):
    """What is read of a message that was got."""

    @property
    def descriptor(self) -> MessageDescriptor:
        """Its MQMD."""
        ...

    @property
    def body(self) -> bytes:
        """The application data."""
        ...

    @property
    def properties(self) -> Mapping[str, object]:
        """Its message properties."""
        ...


class Handling(Protocol):
    """What is read of a delivery."""

    @property
    def message(self) -> Incoming:
        """The message on its way to the handler."""
        ...

    @property
    def queue(self) -> str:
        """Where it was got."""
        ...

    @property
    def listener(self) -> str:
        """Whose it is."""
        ...


class Outgoing(Protocol):
    """What is read of a message about to be put, and the one thing that is changed."""

    @property
    def queue(self) -> str:
        """Where it is put."""
        ...

    @property
    def properties(self) -> MutableMapping[str, object]:
        """Its message properties: the trace context is added here."""
        ...


_DeliveryT = TypeVar("_DeliveryT", bound=Handling)


class ProcessSpans:
    """A "process" span around every handling of a message."""

    def __init__(self, tracers: Tracers, settings: TelemetrySettings, decisions: DecisionSpans) -> None:
        self._tracers = tracers
        self._settings = settings
        self._decisions = decisions

    async def consume(self, delivery: _DeliveryT, call_next: Callable[[_DeliveryT], Awaitable[Outcome]]) -> Outcome:
        """Return what the handling came to, having traced it."""
        span = self._begin(delivery)
        if span is None:
            return await call_next(delivery)
        token = attach(set_span_in_context(span))
        outcome: Outcome = _CANCELLED
        try:
            outcome = await call_next(delivery)
        except Exception as error:
            outcome = outcome_of(error)
            raise
        finally:
            detach(token)
            self._end(span, delivery, outcome)
        return outcome

    @unfailing
    def _begin(self, delivery: Handling) -> Span | None:
        tracer = self._tracers.tracer()
        if tracer is None:
            return None
        message = delivery.message
        sender = carrier.extract(message.properties)
        join = sender is not None and self._settings.trust == "parent"
        span = tracer.start_span(
            f"process {delivery.queue}",
            set_span_in_context(NonRecordingSpan(sender), Context()) if sender and join else Context(),
            SpanKind.CONSUMER,
            operation_attributes("process", delivery.queue, delivery.listener),
            (Link(sender),) if sender and not join else (),
        )
        if span.is_recording():
            self._describe(span, message)
        self._decisions.delivered(message.descriptor.message_id, span)
        return span

    def _describe(self, span: Span, message: Incoming) -> None:
        """Say of the message what the settings allow, and no more."""
        settings = self._settings
        span.set_attribute(BODY_SIZE, len(message.body))
        if message.descriptor.backout_count:
            span.set_attribute("mqflow.backout.count", message.descriptor.backout_count)
        if settings.message_ids:
            span.set_attribute(MESSAGE_ID, message.descriptor.message_id.hex())
            span.set_attribute(CORRELATION_ID, message.descriptor.correlation_id.hex())
        for name in settings.properties:
            if name in message.properties:
                text = str(message.properties[name])[: settings.property_chars_max]
                span.set_attribute(f"mqflow.message.property.{name}", text)
        if settings.body_bytes_max:
            excerpt = message.body[: settings.body_bytes_max].decode("ascii", "backslashreplace")
            span.set_attribute("mqflow.message.body", excerpt)

    @unfailing
    def _end(self, span: Span, delivery: Handling, outcome: Outcome) -> None:
        if not isinstance(outcome, Completed):
            self._decisions.failed(delivery.message.descriptor.message_id, span.get_span_context())
            if span.is_recording():
                span.set_attribute(ERROR_TYPE, error_type(outcome))
                span.set_status(Status(StatusCode.ERROR, self._error_text(outcome)))
        span.end()

    def _error_text(self, outcome: Outcome) -> str | None:
        if self._settings.error_texts and isinstance(outcome, Failed | Undecodable):
            return outcome.text
        return None


class PutSpans:
    """A "put" span around every put, whose context leaves with the message."""

    def __init__(self, tracers: Tracers, settings: TelemetrySettings) -> None:
        self._tracers = tracers
        self._settings = settings

    async def publish(self, message: _PutT, call_next: Callable[[_PutT], Awaitable[_SentT]]) -> _SentT:
        """Return what the put returned, having traced it."""
        span = self._begin(message)
        if span is None:
            return await call_next(message)
        token = attach(set_span_in_context(span))
        try:
            return await call_next(message)
        except Exception as error:
            self._failed(span, error)
            raise
        finally:
            detach(token)
            span.end()

    @unfailing
    def _begin(self, message: Outgoing) -> Span | None:
        tracer = self._tracers.tracer()
        if tracer is None:
            return None
        span = tracer.start_span(
            f"put {message.queue}", kind=SpanKind.PRODUCER, attributes=operation_attributes("put", message.queue)
        )
        if self._settings.inject == "always" or (self._settings.inject == "with-properties" and message.properties):
            message.properties.update(carrier.inject(set_span_in_context(span)))
        return span

    @unfailing
    def _failed(self, span: Span, error: Exception) -> None:
        if not span.is_recording():
            return
        kind = reason_name(error.reason) if isinstance(error, MQIError) else type(error).__qualname__
        span.set_attribute(ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, str(error) if self._settings.error_texts else None))
