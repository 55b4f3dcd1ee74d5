"""Writes and reads a trace context in message properties: `traceparent` and `tracestate`, in the `usr` folder of the RFH2.

Any application that may put to the queue can write these properties. Therefore this module ignores a value that is too long, or
has a wrong type or form. It never reads baggage. It receives the properties as a mapping, without their message.
"""

from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ("TRACEPARENT", "TRACEPARENT_CHARS_MAX", "TRACESTATE", "TRACESTATE_CHARS_MAX", "extract", "inject")

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

#: Version 00 has 55 characters; a later version may be longer (W3C Trace Context, "Versioning of traceparent").
TRACEPARENT_CHARS_MAX: Final = 128
#: A receiver must accept this length (W3C Trace Context, "tracestate Limits"). A longer value is ignored, never cut.
TRACESTATE_CHARS_MAX: Final = 512

# The W3C propagator: the global propagator also reads baggage, and mqflow must not pass on the baggage of a sender.
_W3C: Final = TraceContextTextMapPropagator()
_NOWHERE: Final = Context()


def extract(properties: Mapping[str, object]) -> SpanContext | None:
    """Return the context of the sender's span from the properties of a message; None if they name no valid span."""
    traceparent = properties.get(TRACEPARENT)
    if not isinstance(traceparent, str) or len(traceparent) > TRACEPARENT_CHARS_MAX:
        return None
    carrier = {TRACEPARENT: traceparent}
    tracestate = properties.get(TRACESTATE)
    if isinstance(tracestate, str) and len(tracestate) <= TRACESTATE_CHARS_MAX:
        carrier[TRACESTATE] = tracestate
    sender = get_current_span(_W3C.extract(carrier, _NOWHERE)).get_span_context()
    return sender if sender.is_valid else None


def inject(context: Context) -> dict[str, str]:
    """Return message properties that name the span of `context` to a receiver; empty if `context` has no valid span."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return carrier
