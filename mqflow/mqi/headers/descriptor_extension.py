"""MQMDE, the descriptor extension: the group and segment fields of a version 2 descriptor, in front of the message data.

If a program gets a message with such fields into a version 1 descriptor, the queue manager adds this header. This module knows
one layout, 72 bytes.
Source: IBM, MQMDE; the layout table of the MQMDE (version 2).
"""

import struct
from typing import Final

from msgspec import Struct

from mqflow.mqi.descriptor import CCSID_INHERIT, NO_ID
from mqflow.mqi.errors import error_for
from mqflow.mqi.layout import FIELD_CCSID, Fields, byte_order, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("MDE_BYTES", "DescriptorExtension", "parse", "to_bytes")

MDE_BYTES: Final = 72

_FIELDS: Final = Fields(
    "encoding:i ccsid:i format:8c flags:i group_id:24s sequence_number:i offset:i message_flags:i original_length:i"
)
_VERSION: Final = 2


class DescriptorExtension(Struct, frozen=True, kw_only=True):
    """The version 2 fields of a descriptor (MQMDE)."""

    #: Encoding, CodedCharSetId and Format of the data behind this header.
    encoding: int = Encoding.NATIVE
    ccsid: int = CCSID_INHERIT
    format: str = ""
    #: MQMDEF_*: only 0 is defined.
    flags: int = 0
    #: GroupId, MsgSeqNumber, Offset, MsgFlags (MQMF_*), OriginalLength.
    group_id: bytes = NO_ID
    sequence_number: int = 1
    offset: int = 0
    message_flags: int = 0
    original_length: int = -1


def parse(data: bytes, *, encoding: int, ccsid: int = FIELD_CCSID) -> DescriptorExtension:
    """Return the header at the beginning of the data; the data behind it begins at `MDE_BYTES`.

    `encoding` and `ccsid` come from the descriptor or header before it. Raises `HeaderError` 2248 (MQRC_MDE_ERROR) if the data
    is too short, does not start with an MQMDE, or has another version or length.
    """
    if len(data) < MDE_BYTES or data[:4] != to_field("MDE", 4, ccsid):
        raise error_for(
            Reason.MDE_ERROR, "Reading an MQMDE", detail=f"{len(data)} bytes that start with {data[:4]!r} are not an MQMDE"
        )
    order = byte_order(encoding)
    version, length = struct.unpack_from(order + "ii", data, 4)
    if (version, length) != (_VERSION, MDE_BYTES):
        detail = f"It has version {version} and {length} bytes (read with encoding {encoding}), not {_VERSION} and {MDE_BYTES}"
        raise error_for(Reason.MDE_ERROR, "Reading an MQMDE", detail=detail)
    return DescriptorExtension(**_FIELDS.read(data, 12, order, ccsid))


def to_bytes(header: DescriptorExtension, *, encoding: int, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the 72 bytes of the header, in the `encoding` and `ccsid` of the descriptor or header before it."""
    order = byte_order(encoding)
    start = to_field("MDE", 4, ccsid) + struct.pack(order + "ii", _VERSION, MDE_BYTES)
    return start + _FIELDS.write(header, Reason.MDE_ERROR, order, ccsid)
