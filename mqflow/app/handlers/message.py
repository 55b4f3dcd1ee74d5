"""What a handler sees of a message: `Message`, read only, its headers taken apart when somebody looks.

Knows headers and character sets; knows no connection.
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
    """A message as it was delivered: descriptor, properties, body."""

    def __init__(self, descriptor: MessageDescriptor, data: bytes, queue: str) -> None:
        #: The message descriptor (MQMD).
        self.descriptor: Final = descriptor
        #: Everything after the descriptor, headers included.
        self.data: Final = data
        #: The queue it was got from, by the name the listener was declared with.
        self.queue: Final = queue

    @property
    def body(self) -> bytes:
        """The body behind the headers. Raises `HeaderError` where a header does not hold together."""
        return self.data if self.descriptor.format in _PLAIN else self.parts.body

    @cached_property
    def parts(self) -> chain.Headers:
        """The chain of headers, and the body with the format, encoding and character set that the last link gives it."""
        return chain.split(self.descriptor, self.data)

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """The application's own properties: the `usr` folder of the RFH2, empty where there is none."""
        # Who traces asks this of every message: a cached property takes a lock each first time.
        return {} if self.descriptor.format in _PLAIN else self._properties

    @cached_property
    def _properties(self) -> Mapping[str, PropertyValue]:
        found: dict[str, PropertyValue] = {}
        for link in self.parts.chain:
            if isinstance(link, rfh2.RFH2):
                found = {**rfh2.properties(link), **found}  # of a repeated name the first counts, as within one header
        return found

    @cached_property
    def topic(self) -> str:
        """The topic it was published on (MQTopicString), whatever wildcards subscribed; empty where it says none."""
        if self.descriptor.format in _PLAIN:
            return ""
        found = (rfh2.properties(link, "mqps").get("Top") for link in self.parts.chain if isinstance(link, rfh2.RFH2))
        return next((str(topic) for topic in found if topic), "")

    def text(self) -> str:
        """Return the body as text, by its character set. Raises `MQIError` 2111 or 2119 where it is none."""
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
        """How many units of work that got it were backed out."""
        return self.descriptor.backout_count

    @property
    def delivery_count(self) -> int:
        """1 at the first delivery (JMSXDeliveryCount)."""
        return self.descriptor.backout_count + 1

    def __repr__(self) -> str:
        return f"<Message {self.message_id.hex()} from {self.queue}, {len(self.data)} bytes, delivery {self.delivery_count}>"
