"""`Message`: the read-only message that a handler receives. It parses the headers of a message only when they are needed.

This file knows headers and character sets, but no connection.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import chain, rfh2
from mqflow.mqi.options import Format

__all__ = ("Message", "PropertyValue")

PropertyValue = str | int | float | bool | bytes | None

_PLAIN: Final = frozenset({Format.NONE, Format.STRING})


class Message:
    """A message that was delivered: descriptor, properties and body."""

    def __init__(self, descriptor: MessageDescriptor, data: bytes, queue: str) -> None:
        #: The message descriptor (MQMD).
        self.descriptor: Final = descriptor
        #: All data after the descriptor, including the headers.
        self.data: Final = data
        #: The queue of the message, with the name that the listener has declared.
        self.queue: Final = queue

    @property
    def body(self) -> bytes:
        """The bytes after the headers. Raises `HeaderError` if a header cannot be parsed."""
        return self.data if self.descriptor.format in _PLAIN else self.parts.body

    @cached_property
    def parts(self) -> chain.Headers:
        """The chain of headers, and the body, with the format, encoding and character set that the last header names.

        Raises `HeaderError` if a header cannot be parsed.
        """
        return chain.split(self.descriptor, self.data)

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """The application properties, from the `usr` folder of the RFH2; empty without an RFH2. Raises `HeaderError`."""
        # Telemetry reads this for every message, and the first read of a cached property takes a lock.
        return {} if self.descriptor.format in _PLAIN else self._properties

    @cached_property
    def _properties(self) -> Mapping[str, PropertyValue]:
        found: dict[str, PropertyValue] = {}
        for link in self.parts.chain:
            if isinstance(link, rfh2.RFH2):
                found = {**rfh2.properties(link), **found}  # the first value counts, as in one header
        return found

    @cached_property
    def topic(self) -> str:
        """The topic string of a publication (MQTopicString), without wildcards; empty for other messages."""
        if self.descriptor.format in _PLAIN:
            return ""
        found = (rfh2.properties(link, "mqps").get("Top") for link in self.parts.chain if isinstance(link, rfh2.RFH2))
        return next((str(topic) for topic in found if topic), "")

    def text(self) -> str:
        """Return the body as text, from its character set. Raises `MQIError` 2111 or 2119 if it cannot be converted."""
        return chain.text(self.descriptor, self.data)

    @property
    def message_id(self) -> bytes:
        """MsgId, 24 bytes."""
        return self.descriptor.message_id

    @property
    def correlation_id(self) -> bytes:
        """CorrelId, 24 bytes."""
        return self.descriptor.correlation_id

    @property
    def backout_count(self) -> int:
        """The number of times that a delivery of this message was backed out."""
        return self.descriptor.backout_count

    @property
    def delivery_count(self) -> int:
        """The number of this delivery, from 1 (JMSXDeliveryCount)."""
        return self.descriptor.backout_count + 1

    def __repr__(self) -> str:
        return f"<Message {self.message_id.hex()} from {self.queue}, {len(self.data)} bytes, delivery {self.delivery_count}>"
