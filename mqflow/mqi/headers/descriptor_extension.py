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
from mqflow.mqi.layout import FIELD_CCSID, byte_order, from_field, packed, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("MDE_BYTES", "DescriptorExtension", "parse", "to_bytes")

MDE_BYTES: Final = 72

_LAYOUT: Final = "4siiii8si24siiii"
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
    _, version, length, *rest = struct.unpack_from(byte_order(encoding) + _LAYOUT, data)
    if (version, length) != (_VERSION, MDE_BYTES):
        detail = f"It has version {version} and {length} bytes (read with encoding {encoding}), not {_VERSION} and {MDE_BYTES}"
        raise error_for(Reason.MDE_ERROR, "Reading an MQMDE", detail=detail)
    next_encoding, next_ccsid, next_format, flags, group_id, sequence_number, offset, message_flags, original_length = rest
    return DescriptorExtension(
        encoding=next_encoding,
        ccsid=next_ccsid,
        format=from_field(next_format, ccsid),
        flags=flags,
        group_id=group_id,
        sequence_number=sequence_number,
        offset=offset,
        message_flags=message_flags,
        original_length=original_length,
    )


def to_bytes(header: DescriptorExtension, *, encoding: int, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the 72 bytes of the header, in the `encoding` and `ccsid` of the descriptor or header before it."""
    return packed(
        header,
        Reason.MDE_ERROR,
        byte_order(encoding) + _LAYOUT,
        to_field("MDE", 4, ccsid),
        _VERSION,
        MDE_BYTES,
        header.encoding,
        header.ccsid,
        to_field(header.format, 8, ccsid),
        header.flags,
        header.group_id,
        header.sequence_number,
        header.offset,
        header.message_flags,
        header.original_length,
    )
