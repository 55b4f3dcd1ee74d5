"""The settings of `OpenTelemetry`: the content of spans, and the trust in traces of senders. Records only."""

from typing import Literal

from msgspec import Struct

__all__ = ("Inject", "TraceSettings", "Trust")

Trust = Literal["link", "parent"]
"""The use of a received `traceparent`: "link" links to that trace, "parent" continues it."""

Inject = Literal["always", "with-properties", "never"]
"""The messages that get a `traceparent`: all, only those with other properties, or none."""


class TraceSettings(Struct, frozen=True, kw_only=True):
    """The settings of traces. By default a span has no content that a sender wrote; each setting allows one kind of content."""

    #: "link": each delivery begins its own trace, with its own sampling, and links to the sender's. "parent": it joins the
    #: sender's trace and takes over its sampling decision; only for queues to which only trusted applications put.
    trust: Trust = "link"
    #: A trace context adds an RFH2 header to a message without properties; "with-properties" leaves such messages unchanged.
    inject: Inject = "always"
    #: The exact names of message properties that spans show, as `mqflow.message.property.<name>`.
    properties: tuple[str, ...] = ()
    #: The largest number of characters of such a property.
    property_chars_max: int = 256
    #: Whether spans show MsgId and CorrelId: a sender can make them from an account number.
    message_ids: bool = False
    #: Whether spans show the texts of exceptions, which often quote the message. They always show the classes.
    error_texts: bool = False
    #: The number of bytes of the body that spans show, in hexadecimal outside ASCII; 0 for none.
    body_bytes_max: int = 0
