"""Carries a trace context in message properties (`traceparent`, `tracestate`: the RFH2 `usr` folder), out and back in.

What comes in was written by whoever may put to the queue: wrong types, malformed values and overlong ones are ignored, and
baggage is never read. Knows properties as a mapping; knows no message, span or setting.
"""

from collections.abc import Mapping
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ("TRACEPARENT", "TRACEPARENT_CHARS_MAX", "TRACESTATE", "TRACESTATE_CHARS_MAX", "extract", "inject")

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

#: Version 00 is 55 characters; a later version may be longer (W3C Trace Context, "Versioning of traceparent").
TRACEPARENT_CHARS_MAX: Final = 128
#: What a receiver has to accept (W3C Trace Context, "tracestate Limits"); a longer one is dropped whole, never cut.
TRACESTATE_CHARS_MAX: Final = 512

# The W3C propagator itself, not the global one: that one reads baggage too, and baggage from a sender is not ours to pass on.
_W3C: Final = TraceContextTextMapPropagator()
_NOWHERE: Final = Context()


def extract(properties: Mapping[str, object]) -> SpanContext | None:
    """Return the span that sent a message with these properties, or None where they name none that is valid."""
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
    """Return the properties that tell a receiver which span sent the message; empty where the context holds no valid span."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return carrier
