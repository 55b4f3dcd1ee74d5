"""The settings of `OpenTelemetry`: the content of spans, and the trust in traces of senders."""

from typing import Literal

from msgspec import Struct

__all__ = ("Inject", "TraceSettings", "Trust")

Trust = Literal["link", "parent"]
"""The use of a received `traceparent`: "link" links to the sender's trace, "parent" continues the sender's trace."""

Inject = Literal["always", "with-properties", "never"]
"""The messages that get a `traceparent`: all, only those with other properties, or none."""


class TraceSettings(Struct, frozen=True, kw_only=True):
    """The settings of traces. By default a span has no content that a sender wrote; each setting allows one kind of content."""

    #: "link": each delivery begins a new trace, with its own sampling, and links to the sender's trace. "parent": the delivery
    #: joins the sender's trace and uses its sampling decision. Use "parent" only if all applications that put are trusted.
    trust: Trust = "link"
    #: A trace context adds an RFH2 header to a message without properties; "with-properties" leaves such messages unchanged.
    inject: Inject = "always"
    #: The exact names of message properties that spans show, as `mqflow.message.property.<name>`.
    properties: tuple[str, ...] = ()
    #: The largest number of characters that a span shows of a property.
    property_chars_max: int = 256
    #: Whether spans show MsgId and CorrelId. A sender can make these identifiers from an account number.
    message_ids: bool = False
    #: Whether spans show the texts of exceptions, which often quote the message. Spans always show the classes of exceptions.
    error_texts: bool = False
    #: The largest number of bytes of the body that spans show, in hexadecimal outside ASCII; 0 for no body.
    body_bytes_max: int = 0
