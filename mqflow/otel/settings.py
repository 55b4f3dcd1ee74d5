"""What spans may say, and whom they believe: the settings of `OpenTelemetry`. Records only."""

from typing import Literal

from msgspec import Struct

__all__ = ("Inject", "TraceSettings", "Trust")

Trust = Literal["link", "parent"]
"""What a `traceparent` that came with a message is: a trace to point at, or the trace to go on with."""

Inject = Literal["always", "with-properties", "never"]
"""Which messages leave with a `traceparent`: all, those that carry properties anyway, none."""


class TraceSettings(Struct, frozen=True, kw_only=True):
    """Closed by default: nothing that a sender wrote is in a span unless it is allowed here by name."""

    #: "link": each delivery is a trace of its own, sampled here, that links to the sender's. "parent": it joins the sender's
    #: trace, and so takes over the sender's sampling decision; for queues that only trusted applications may put to.
    trust: Trust = "link"
    #: A property makes a plain message one with an RFH2 header; "with-properties" leaves plain messages plain.
    inject: Inject = "always"
    #: Message properties that spans may show, by exact name, as `mqflow.message.property.<name>`.
    properties: tuple[str, ...] = ()
    #: How many characters of such a property.
    property_chars_max: int = 256
    #: MsgId and CorrelId: a sender may have made them from an account number.
    message_ids: bool = False
    #: The texts of exceptions, which often quote the message. Their classes are always there.
    error_texts: bool = False
    #: The first bytes of the body, hexadecimal beyond ASCII; 0 for none.
    body_bytes_max: int = 0
