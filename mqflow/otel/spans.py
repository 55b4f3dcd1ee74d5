"""Spans around handlers and around puts, spans for the actions of the DLQ handler, and their settings.

Message properties carry the trace context from a put to a handler. The middleware sees each delivery and each put. It changes
only the properties of messages that are put. An error of the middleware never fails a message: the error is logged, and the
message is put or handled without a trace.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    format_trace_id,
    set_span_in_context,
)

from mqflow.app.handlers.message import Message, PropertyValue
from mqflow.app.handlers.middleware import Call, Incoming
from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.events import DeadLetterActed, Event
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import reason_name
from mqflow.otel import carrier
from mqflow.otel.attributes import (
    BATCH_MESSAGES,
    CORRELATION_ID,
    ENVELOPE_SIZE,
    ERROR_TYPE,
    MESSAGE_ID,
    error_type,
    operation_attributes,
    operation_name,
)
from mqflow.otel.decisions import DecisionSpans
from mqflow.otel.tracers import Tracers, unfailing
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Undecodable
from mqflow.policy.poison.outcomes import outcome_of
from mqflow.verbs import Put
from mqflow.world import Clock

__all__ = ("DeadLetterSpans", "Inject", "ProcessSpans", "PutSpans", "TraceSettings", "Trust")

_CANCELLED: Final = Interrupted("cancelled")
_NOWHERE: Final = Context()
_CONSUMER: Final = SpanKind.CONSUMER  # a look-up on the class of an enumeration takes time for each message


Trust = Literal["link", "parent"]
"""The use of a received `traceparent`: "link" links to the sender's trace, "parent" continues the sender's trace."""

Inject = Literal["always", "with-properties", "never"]
"""The messages that get a `traceparent`: all, only those with other properties, or none."""


class TraceSettings(Struct, frozen=True, kw_only=True):
    """The settings of traces. By default a span shows no content of a message. The last five settings allow such content."""

    #: "link": each delivery begins a new trace with its own sampling decision, and links to the sender's trace. "parent": the
    #: delivery joins the sender's trace and uses its sampling decision. Use "parent" only if you trust all senders.
    trust: Trust = "link"
    #: "always": every put message carries the trace context; a message without properties gets an RFH2 header for this.
    #: "with-properties": a message without properties is put unchanged.
    inject: Inject = "always"
    #: The names of the message properties that spans show, as attributes `mqflow.message.property.<name>`.
    properties: tuple[str, ...] = ()
    #: The largest number of characters of a property that a span shows.
    property_chars_max: int = 256
    #: True if spans show MsgId and CorrelId. A sender can put private data in them, for example an account number.
    message_ids: bool = False
    #: True if spans show the texts of exceptions, which often quote the message. Spans always show the classes of exceptions.
    error_texts: bool = False
    #: The largest number of bytes of the body that a span shows; 0 for no body. Bytes outside of ASCII look like `\xe9`.
    body_bytes_max: int = 0


class ProcessSpans:
    """Middleware that makes a "process" span around each handling of a message or of a batch."""

    def __init__(self, tracers: Tracers, settings: TraceSettings, decisions: DecisionSpans) -> None:
        self._tracers = tracers
        self._settings = settings
        self._decisions = decisions

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        """Return the outcome of the handling, with a span around it."""
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
            if type(span) is not NonRecordingSpan or type(outcome) is not Completed:  # otherwise `_end` would do nothing
                self._end(span, delivery, outcome)
        return outcome

    @unfailing
    def _begin(self, delivery: Incoming) -> Span | None:
        tracer = self._tracers.tracer()
        if tracer is None:
            return None
        senders = _senders(delivery)
        parent = self._parent(delivery, senders) if senders else None
        span = tracer.start_span(
            operation_name("process", delivery.queue),
            set_span_in_context(NonRecordingSpan(parent), _NOWHERE) if parent else _NOWHERE,
            _CONSUMER,
            operation_attributes("process", delivery.queue, delivery.listener),
            self._links(delivery, () if parent else senders),
        )
        context = span.get_span_context()
        if context.is_valid:
            delivery.belongs_to_trace(format_trace_id(context.trace_id))
        if span.is_recording():
            self._describe(span, delivery)
        return span

    def _parent(self, delivery: Incoming, senders: Sequence[SpanContext]) -> SpanContext | None:
        """Return the sender whose trace the delivery joins; None if it joins no trace.

        A batch of several messages joins no trace: it only has links to its senders.
        """
        trusted = self._settings.trust == "parent" and len(delivery.messages) == 1
        return senders[0] if trusted and senders else None

    def _links(self, delivery: Incoming, senders: Sequence[SpanContext]) -> Sequence[Link]:
        """Return links to the senders. For a redelivered message, add a link to the last failed delivery."""
        # A message that was backed out before is alone, or the last of its batch.
        if not senders and not delivery.messages[-1].descriptor.backout_count:
            return ()
        links = [Link(sender) for sender in senders]
        if again := [message.message_id for message in delivery.messages if message.backout_count]:
            links.extend(Link(span) for each in again if (span := self._decisions.failed_in(each)))
        return links

    def _describe(self, span: Span, delivery: Incoming) -> None:
        """Add the attributes of the delivery that the settings allow. For a batch, add only its size in bytes and messages."""
        span.set_attribute(ENVELOPE_SIZE, sum(len(message.data) for message in delivery.messages))
        if len(delivery.messages) > 1:
            span.set_attribute(BATCH_MESSAGES, len(delivery.messages))
            return
        message, settings = delivery.message, self._settings
        if message.backout_count:
            span.set_attribute("mqflow.backout.count", message.backout_count)
        if settings.message_ids:
            span.set_attribute(MESSAGE_ID, message.message_id.hex())
            span.set_attribute(CORRELATION_ID, message.correlation_id.hex())
        properties = _properties(message) if settings.properties else {}
        for name in settings.properties:
            if name in properties:
                text = str(properties[name])[: settings.property_chars_max]
                span.set_attribute(f"mqflow.message.property.{name}", text)
        if settings.body_bytes_max:
            span.set_attribute("mqflow.message.body", _excerpt(message, settings.body_bytes_max))

    @unfailing
    def _end(self, span: Span, delivery: Incoming, outcome: Outcome) -> None:
        if not isinstance(outcome, Completed):
            for message in delivery.messages:
                self._decisions.failed(message.message_id, span.get_span_context())
            if span.is_recording():
                span.set_attribute(ERROR_TYPE, error_type(outcome))
                span.set_status(Status(StatusCode.ERROR, self._error_text(outcome)))
        span.end()

    def _error_text(self, outcome: Outcome) -> str | None:
        if self._settings.error_texts and isinstance(outcome, Failed | Undecodable):
            return outcome.text
        return None


class PutSpans:
    """Middleware that makes a "put" span around each put, and writes the span's context into the message properties."""

    def __init__(self, tracers: Tracers, settings: TraceSettings) -> None:
        self._tracers = tracers
        self._settings = settings

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        """Return the result of the put, with a span around it."""
        span = self._begin(message)
        if span is None:
            return await call_next(message)
        context = set_span_in_context(span)
        token = attach(context)
        try:
            return await call_next(self._with_context(message, context) or message)
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
        return tracer.start_span(
            operation_name("put", message.queue), kind=SpanKind.PRODUCER, attributes=operation_attributes("put", message.queue)
        )

    @unfailing
    def _with_context(self, message: Outgoing, context: Context) -> Outgoing:
        """Return the message with the trace context in its properties, if the settings want it there."""
        inject = self._settings.inject
        if inject == "never" or (inject == "with-properties" and not message.properties):
            return message
        added = carrier.inject(context)
        # A message that is passed on has the `tracestate` of its sender, which belongs to another trace.
        kept = {name: value for name, value in message.properties.items() if not added or name != carrier.TRACESTATE}
        return replace(message, properties=kept | added)

    @unfailing
    def _failed(self, span: Span, error: Exception) -> None:
        if not span.is_recording():
            return
        kind = reason_name(error.reason) if isinstance(error, MQIError) else type(error).__qualname__
        span.set_attribute(ERROR_TYPE, kind)
        span.set_status(Status(StatusCode.ERROR, str(error) if self._settings.error_texts else None))


def _senders(delivery: Incoming) -> Sequence[SpanContext]:
    """Return the spans that sent the messages. A message without properties names no span."""
    found: list[SpanContext] = []
    for message in delivery.messages:
        properties = _properties(message)
        if properties and (sender := carrier.extract(properties)):
            found.append(sender)
    return found


def _properties(message: Message) -> Mapping[str, PropertyValue]:
    """Return the message properties; empty if the headers cannot be parsed. The codec, not the tracing, reports that error."""
    try:
        return message.properties
    except MQIError:
        return {}


def _excerpt(message: Message, bytes_max: int) -> str:
    """Return the start of the body. If the headers cannot be parsed, return the start of the data after the descriptor."""
    try:
        body = message.body
    except MQIError:
        body = message.data
    return body[:bytes_max].decode("ascii", "backslashreplace")


class DeadLetterSpans:
    """A hook that makes a "settle" span for each action of the DLQ handler.

    The hook receives events, not messages. Therefore each span has a trace of its own, at the time of the event. The span does
    not name the destination, because a rule can take that name from the content of the message.
    """

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
