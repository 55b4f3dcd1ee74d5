"""The initial data (ID) of both ends, and the answer to the client's initial data.

For each limit, the answer has the smaller value of both ends; for the heartbeat interval, the longer one. The client repeats
its initial data with the values of the answer until both ends agree.
Source: Wireshark's description of the structure; IBM, MQCD (what a channel negotiates).
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap.fields import ByteOrder, FlowError, Reader, Writer
from mqflow.fap.transmission_segments import CONVERSATIONS_MAX

__all__ = ("InitialData", "Offer", "answer")

_TRANSMISSION_BYTES_MIN: Final = 1_024
_HEARTBEAT_S_MAX: Final = 999_999
_LENGTHS: Final = ((4, 44), (9, 102), (13, 208), (256, 240))
_ERROR_CCSID, _ERROR_TRANSMISSION, _ERROR_LEVEL, _ERROR_MESSAGE, _ERROR_BATCH, _ERROR_WRAP, _ERROR_HEARTBEAT = (
    0x01, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80,
)  # fmt: skip
_ERROR_HEADERS, _ERROR_MESSAGES, _ERROR_CONVERSATIONS = 0x01, 0x02, 0x08
_NOT_COMPRESSED: Final = b"\x00\xff"
"""The kind "none" in a list of kinds of compression, and the byte behind the last kind."""


class InitialData(Struct, frozen=True, kw_only=True):
    """The initial data of one end."""

    #: The level of formats and protocols (FAP level).
    level: int
    flags1: int = 0
    #: Flags for the values that the receiver must change.
    errors1: int = 0
    errors2: int = 0
    batch_messages_max: int = 0
    transmission_bytes_max: int
    message_bytes_max: int
    sequence_wrap: int = 0
    channel: str = ""
    flags2: int = 0
    ccsid: int = 0
    queue_manager: str = ""
    heartbeat_s: int = 0
    #: True if the client offers to compress headers, and messages (COMPHDR, COMPMSG).
    compresses_headers: bool = False
    compresses_messages: bool = False
    #: The most conversations on one socket; 0 if conversations share no socket.
    conversations_max: int = 0
    flags3: int = 0
    process: int = 0
    thread: int = 0
    product: str = ""
    queue_manager_identifier: str = ""

    @classmethod
    def read(cls, reader: Reader) -> "InitialData":
        """Read the structure. Raises `FlowError` if it is too short for its level."""
        reader.identifier(b"ID  ")
        level, flags1, _, errors1 = reader.raw(4)
        reader.raw(2)
        data = cls(
            level=level,
            flags1=flags1,
            errors1=errors1,
            batch_messages_max=reader.short(),
            transmission_bytes_max=reader.number(),
            message_bytes_max=reader.number(),
            sequence_wrap=reader.number(),
            channel=reader.text(20),
        )
        if level < 4:  # noqa: PLR2004 - a level of _LENGTHS
            return data
        flags2 = reader.byte()
        reader.byte()
        data = replace(data, flags2=flags2, ccsid=reader.short(), queue_manager=reader.text(48), heartbeat_s=reader.number())
        if reader.left < 60:  # noqa: PLR2004 - the bytes up to the product
            return data
        reader.raw(2)
        errors2 = reader.byte()
        reader.byte()
        compresses_headers, compresses_messages = _compresses(reader.raw(2)), _compresses(reader.raw(16))
        reader.raw(6)
        conversations_max = reader.number()
        flags3 = reader.byte()
        reader.raw(3)
        process, thread = reader.number(), reader.number()
        reader.raw(4)
        data = replace(
            data,
            errors2=errors2,
            compresses_headers=compresses_headers,
            compresses_messages=compresses_messages,
            conversations_max=conversations_max,
            flags3=flags3,
            process=process,
            thread=thread,
            product=reader.text(12),
        )
        return replace(data, queue_manager_identifier=reader.text(48)) if reader.left >= 48 else data  # noqa: PLR2004

    def to_bytes(self, order: ByteOrder) -> bytes:
        """Return the structure, in the length for its level."""
        length = next(length for below, length in _LENGTHS if self.level < below)
        writer = Writer(order)
        writer.raw(b"ID  ").byte(self.level, self.flags1, 0, self.errors1).short(0, self.batch_messages_max)
        writer.number(self.transmission_bytes_max, self.message_bytes_max, self.sequence_wrap).text(self.channel, 20)
        writer.byte(self.flags2, 0).short(self.ccsid).text(self.queue_manager, 48).number(self.heartbeat_s)
        writer.short(max(0, length - 102)).byte(self.errors2, 0)
        writer.short(0x00FF).raw(b"\0" + b"\xff" * 15).short(0).number(0)
        writer.number(self.conversations_max).byte(self.flags3, 0, 0, 0).number(self.process, self.thread, 0)
        writer.text(self.product, 12).text(self.queue_manager_identifier, 48)
        # Algorithms for password protection: none. So the client sends the password unprotected, or protected by TLS.
        writer.short(0).raw(b"\xff" * 18).raw(bytes(12))
        return writer.done()[:length]


class Offer(Struct, frozen=True, kw_only=True):
    """The listener's own values for the negotiation. `answer` compares them with the client's values."""

    queue_manager: str
    queue_manager_identifier: str
    level: int = 12
    transmission_bytes_max: int = 32_748
    message_bytes_max: int = 104_857_600
    heartbeat_s: int = 300
    conversations_max: int = CONVERSATIONS_MAX
    product: str = "MQMM09030000"


def answer(client: InitialData, offer: Offer) -> tuple[InitialData, bool]:
    """Return the initial data for the answer, and whether both ends now agree.

    Raises `FlowError` for a client of a level below 4, or for a client that accepts only tiny segments.
    """
    if client.level < 4:  # noqa: PLR2004 - a level of _LENGTHS
        raise FlowError(f"the client speaks level {client.level} of the protocol; level 4 is the lowest that is served")
    level = min(client.level, offer.level)
    transmission = min(client.transmission_bytes_max, offer.transmission_bytes_max)
    if transmission < _TRANSMISSION_BYTES_MIN:
        raise FlowError(f"the client takes {transmission} bytes a segment; {_TRANSMISSION_BYTES_MIN:,} is the least")
    message = min(client.message_bytes_max or offer.message_bytes_max, offer.message_bytes_max)
    conversations = min(client.conversations_max, offer.conversations_max)
    # The longer interval applies, up to MQ's maximum (IBM, HBINT).
    heartbeat = min(max(client.heartbeat_s, offer.heartbeat_s), _HEARTBEAT_S_MAX)
    errors = 0
    errors |= _ERROR_LEVEL if level != client.level else 0
    errors |= _ERROR_TRANSMISSION if transmission != client.transmission_bytes_max else 0
    errors |= _ERROR_MESSAGE if message != client.message_bytes_max else 0
    errors |= _ERROR_HEARTBEAT if heartbeat != client.heartbeat_s else 0
    errors2 = _ERROR_CONVERSATIONS if conversations != client.conversations_max else 0
    # The listener compresses nothing, so a client that would compress must not.
    errors2 |= _ERROR_HEADERS if client.compresses_headers else 0
    errors2 |= _ERROR_MESSAGES if client.compresses_messages else 0
    answered = replace(
        client,
        level=level,
        errors1=errors,
        errors2=errors2,
        transmission_bytes_max=transmission,
        message_bytes_max=message,
        heartbeat_s=heartbeat,
        compresses_headers=False,
        compresses_messages=False,
        conversations_max=conversations,
        queue_manager=offer.queue_manager,
        queue_manager_identifier=offer.queue_manager_identifier,
        product=offer.product,
        flags3=0,
    )
    return answered, not errors and not errors2


def _compresses(kinds: bytes) -> bool:
    """Return whether a list of kinds of compression has another kind than none."""
    return bool(kinds.strip(_NOT_COMPRESSED))
