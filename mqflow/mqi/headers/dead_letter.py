"""MQDLH, the dead-letter header: the reason why a message is on the dead-letter queue, and its destination.

This module knows one layout, 172 bytes in front of the message data. `mqflow.policy` decides whether a message is
dead-lettered.
Source: IBM, MQDLH; the layout table of the MQDLH (version 1).
"""

import struct
from functools import lru_cache
from typing import Final

from msgspec import Struct

from mqflow.mqi.ccsid import is_ebcdic
from mqflow.mqi.descriptor import CCSID_INHERIT
from mqflow.mqi.errors import error_for
from mqflow.mqi.layout import FIELD_CCSID, Fields, byte_order, to_field
from mqflow.mqi.options import ApplicationType, Encoding
from mqflow.mqi.reason_codes import Reason

__all__ = ("DLH_BYTES", "DeadLetterHeader", "parse", "to_bytes")

DLH_BYTES: Final = 172

_FIELDS: Final = Fields(
    "reason:i destination_queue:48c destination_queue_manager:48c encoding:i ccsid:i format:8c put_application_type:i "
    "put_application_name:28c put_date:8c put_time:8c"
)
_VERSION: Final = 1


class DeadLetterHeader(Struct, frozen=True, kw_only=True):
    """The reason and the destination of a dead letter (MQDLH version 1). Character fields have no blank padding."""

    #: A reason code (2362, 2053 ...) or MQFB_* feedback.
    reason: int = 0
    #: DestQName and DestQMgrName: the queue the message was for.
    destination_queue: str = ""
    destination_queue_manager: str = ""
    #: Encoding, CodedCharSetId and Format of the data behind this header.
    encoding: int = Encoding.NATIVE
    ccsid: int = CCSID_INHERIT
    format: str = ""
    #: PutApplType (MQAT_*) and PutApplName of the program that put the message on the dead-letter queue.
    put_application_type: int = ApplicationType.NO_CONTEXT
    put_application_name: str = ""
    #: The time of that put, in GMT: YYYYMMDD and HHMMSSTH.
    put_date: str = ""
    put_time: str = ""


def parse(data: bytes, *, encoding: int, ccsid: int = FIELD_CCSID) -> DeadLetterHeader:
    """Return the header at the beginning of the data; the data behind it begins at `DLH_BYTES`.

    `encoding` and `ccsid` come from the descriptor or header before it. Raises `HeaderError` 2141 (MQRC_DLH_ERROR) if the data
    is too short, does not start with an MQDLH, or has another version.
    """
    if len(data) < DLH_BYTES or data[:4] != (to_field("DLH", 4, ccsid) if is_ebcdic(ccsid) else b"DLH "):
        raise error_for(
            Reason.DLH_ERROR, "Reading an MQDLH", detail=f"{len(data)} bytes that start with {data[:4]!r} are not an MQDLH"
        )
    return _parsed(bytes(data[:DLH_BYTES]), encoding, ccsid)


@lru_cache(maxsize=64)
def _parsed(data: bytes, encoding: int, ccsid: int) -> DeadLetterHeader:
    """Parse the header. The cache helps because several readers parse the header of one message at each get."""
    order = byte_order(encoding)
    (version,) = struct.unpack_from(order + "i", data, 4)
    if version != _VERSION:
        detail = f"Its version is {version}, not {_VERSION} (read with encoding {encoding})"
        raise error_for(Reason.DLH_ERROR, "Reading an MQDLH", detail=detail)
    return DeadLetterHeader(**_FIELDS.read(data, 8, order, ccsid))


def to_bytes(header: DeadLetterHeader, *, encoding: int, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the 172 bytes of the header, in the `encoding` and `ccsid` of the descriptor or header before it."""
    order = byte_order(encoding)
    start = to_field("DLH", 4, ccsid) + struct.pack(order + "i", _VERSION)
    return start + _FIELDS.write(header, Reason.DLH_ERROR, order, ccsid)
