"""MFD, the header of a message on the staging queue: its due time, its target, and fields of its original descriptor.

The header is mqflow's own, because IBM's staging header is not published. This module knows one layout, 256 bytes in front of
the message data, big-endian on every machine; it knows no clock. The staged descriptor keeps the other fields (type, priority,
reply-to, context).
Source: IBM, "JMS 2.0 delivery delay": "a header that indicates the delivery delay and information about the target queue".
"""

import struct
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID
from mqflow.mqi.errors import error_for
from mqflow.mqi.layout import FIELD_CCSID, Fields
from mqflow.mqi.options import Encoding, ObjectType
from mqflow.mqi.reason_codes import Reason

__all__ = ("DELAY_HEADER_BYTES", "FORMAT", "DelayHeader", "parse", "to_bytes")

FORMAT: Final = "MFLDELAY"
"""MQMD.Format of a staged message. Formats that start with MQ are IBM's."""

_START: Final = struct.Struct(">4sii")
_FIELDS: Final = Fields(
    "target_type:i encoding:i ccsid:i format:8c report:i message_flags:i expiry_tenths:i target:48c target_queue_manager:48c "
    "subscription_id:24s correlation_id:24s delay_ms:q retry_ms:q sent_wall_ms:q sent_monotonic_ms:q monotonic_epoch:16s "
    "backout_count:i"
)
_END: Final = struct.Struct(">i12x")
DELAY_HEADER_BYTES: Final = _START.size + _FIELDS.length + _END.size
_STRUC_ID: Final = b"MFD "
_VERSION: Final = 1
_NO_DEAD_LETTER_QUEUE: Final = 1
#: More milliseconds than any date of a calendar has; a sum of a few such numbers fits into eight bytes.
_MS_MAX: Final = 2**52


class DelayHeader(Struct, frozen=True, kw_only=True):
    """The data that restore the original message from a staged message (MFD version 1)."""

    #: Q, or TOPIC for a publication that a queue manager must still match with its subscriptions.
    target_type: int = ObjectType.Q
    #: The target queue and its queue manager, as the sender named them; for a matched publication, the subscription's queue.
    #: Empty if the queue or topic of the put is the target: then an embedded queue manager stages the message.
    target: str = ""
    target_queue_manager: str = ""
    #: The subscription that a delayed publication matched at the send; zeros for a message to a queue.
    subscription_id: bytes = NO_ID
    #: CorrelId, Report, MsgFlags and Expiry of the message as sent, because the staged descriptor uses these fields itself.
    correlation_id: bytes = NO_ID
    report: int = 0
    message_flags: int = 0
    #: In tenths of a second after `sent_wall_ms`; -1 if the message never expires.
    expiry_tenths: int = EXPIRY_UNLIMITED
    #: Format, Encoding and CodedCharSetId of the message as sent, which is the data behind this header.
    format: str = ""
    encoding: int = Encoding.NATIVE
    ccsid: int = FIELD_CCSID
    delay_ms: int
    #: The time from the end of the delay to the next attempt, if the target refused the message when it was due.
    retry_ms: int = 0
    #: The time of the send: milliseconds since 1970, and by the monotonic clock, with the identity of the epoch of that clock.
    sent_wall_ms: int
    sent_monotonic_ms: int = 0
    monotonic_epoch: bytes = bytes(16)
    #: The backout count of a message that is staged for its next delivery; 0 for a message that was sent.
    backout_count: int = 0
    #: True if a publication may go to the dead-letter queue (USEDLQ of its topic).
    use_dead_letter_queue: bool = True


def parse(data: bytes) -> DelayHeader:
    """Return the header at the beginning of the data; the data behind it begins at `DELAY_HEADER_BYTES`.

    Raises `HeaderError` 2142 (MQRC_HEADER_ERROR) if the data is too short, or does not start with an MFD. Raises the same error
    for another version, and for a value that mqflow never writes. A user that may put on a staging queue can write any bytes.
    After this error the caller leaves the message on its queue.
    """
    if len(data) < DELAY_HEADER_BYTES or data[:4] != _STRUC_ID:
        detail = f"{len(data)} bytes that start with {data[:4]!r} are not a staged message"
        raise error_for(Reason.HEADER_ERROR, "Reading the header of a delayed message", detail=detail)
    _, version, length = _START.unpack_from(data)
    if (version, length) != (_VERSION, DELAY_HEADER_BYTES):
        detail = (
            f"It has version {version} and {length} bytes, not {_VERSION} and {DELAY_HEADER_BYTES}: another mqflow staged it"
        )
        raise error_for(Reason.HEADER_ERROR, "Reading the header of a delayed message", detail=detail)
    header = DelayHeader(**_FIELDS.read(data, _START.size, ">"))
    times = header.delay_ms, header.retry_ms, header.sent_wall_ms
    if header.format == FORMAT or min(*times, header.sent_monotonic_ms, header.backout_count) < 0 or max(times) > _MS_MAX:
        detail = "Its data is another staged message, or a time or a count is out of range: mqflow never writes such a header"
        raise error_for(Reason.HEADER_ERROR, "Reading the header of a delayed message", detail=detail)
    (options,) = _END.unpack_from(data, _START.size + _FIELDS.length)
    return replace(header, use_dead_letter_queue=False) if options & _NO_DEAD_LETTER_QUEUE else header


def to_bytes(header: DelayHeader) -> bytes:
    """Return the bytes of the header, which go in front of the message data."""
    start = _START.pack(_STRUC_ID, _VERSION, DELAY_HEADER_BYTES)
    end = _END.pack(0 if header.use_dead_letter_queue else _NO_DEAD_LETTER_QUEUE)
    return start + _FIELDS.write(header, Reason.HEADER_ERROR, ">") + end
