"""Makes a "settle" span with a span event for each backout decision, in the trace of the delivery that failed.

If the decision is to deliver the message again, the span ends immediately. Otherwise the span ends when the message has been
moved, discarded or left on its queue; the span names every destination that was tried. The hook receives events, not messages.
"""

from collections import OrderedDict
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, set_span_in_context

from mqflow.events import Decided, Disposed, Event, InDoubt
from mqflow.mqi.reason_codes import reason_name
from mqflow.otel.attributes import BACKOUT_DECISION, ERROR_TYPE, decision_attributes, operation_attributes, operation_name
from mqflow.otel.tracers import Tracers
from mqflow.policy.poison.disposition import Deliver, Return, without_exception
from mqflow.world import Clock

__all__ = ("REMEMBERED_MAX", "DecisionSpans")

#: The largest number of decisions that are not yet carried out, and of failed deliveries, that the hook remembers.
REMEMBERED_MAX: Final = 4096

_T = TypeVar("_T")


class _OpenPlan(Struct, frozen=True):
    decided: Decided
    since_ns: int


class DecisionSpans:
    """A hook that remembers a backout decision until the decision has been carried out, and then makes its span."""

    wants: Final = (Decided, Disposed, InDoubt)

    def __init__(self, tracers: Tracers, clock: Clock) -> None:
        self._tracers = tracers
        self._clock = clock
        self._open_plans: OrderedDict[bytes, _OpenPlan] = OrderedDict()
        self._failed_in: OrderedDict[bytes, SpanContext] = OrderedDict()

    def __call__(self, event: Event) -> None:
        """Remember the decision of the event, or make its span if it has been carried out."""
        match event:
            case Decided(plan=(Deliver(), *_)):
                self._make_span(event, self._now_ns(), None)
            case Decided(message_id=message_id):
                # If the move of the message is backed out, a second decision follows. The span begins at the first decision.
                begun = self._open_plans.get(message_id)
                kept = replace(event, outcome=without_exception(event.outcome))
                _keep(self._open_plans, message_id, _OpenPlan(kept, begun.since_ns if begun else self._now_ns()))
            case Disposed(message_id=message_id) if message_id in self._open_plans:
                open_plan = self._open_plans.pop(message_id)
                self._make_span(open_plan.decided, open_plan.since_ns, event)
            case InDoubt():
                self._make_in_doubt_spans(event)
            case _:
                return

    def failed(self, message_id: bytes, span: SpanContext) -> None:
        """Remember the span of a failed handling: later decisions about the message belong to the same trace."""
        _keep(self._failed_in, message_id, span)

    def failed_in(self, message_id: bytes) -> SpanContext | None:
        """Return the span of the last failed handling of the message; None if this process does not remember it."""
        return self._failed_in.get(message_id)

    def _make_span(self, decided: Decided, since_ns: int, disposed: Disposed | None) -> None:
        span = self._settle_span(decided.queue, decided.listener, decided.message_id, since_ns)
        if span is None:
            return
        now_ns = self._now_ns()
        if span.is_recording():
            span.add_event(BACKOUT_DECISION, decision_attributes(decided, disposed), timestamp=now_ns)
            if disposed is not None and isinstance(disposed.disposition, Return):
                span.set_status(Status(StatusCode.ERROR, "no destination accepted the message: it stays on its queue"))
        span.end(now_ns)

    def _make_in_doubt_spans(self, event: InDoubt) -> None:
        now_ns = self._now_ns()
        for message_id in event.message_ids:
            span = self._settle_span(event.queue, event.listener, message_id, now_ns)
            if span is not None:
                span.set_attribute(ERROR_TYPE, reason_name(event.reason))
                span.set_status(Status(StatusCode.ERROR, "the commit got no answer: its outcome is unknown"))
                span.end(now_ns)

    def _settle_span(self, queue: str, listener: str, message_id: bytes, since_ns: int) -> Span | None:
        tracer = self._tracers.tracer()
        if tracer is None:
            return None
        failed_in = self.failed_in(message_id)
        return tracer.start_span(
            operation_name("settle", queue),
            set_span_in_context(NonRecordingSpan(failed_in), Context()) if failed_in else Context(),
            SpanKind.CLIENT,
            operation_attributes("settle", queue, listener),
            start_time=since_ns,
        )

    def _now_ns(self) -> int:
        return int(self._clock.wall() * 1e9)


def _keep(memory: OrderedDict[bytes, _T], message_id: bytes, value: _T) -> None:
    memory[message_id] = value
    memory.move_to_end(message_id)
    if len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)
