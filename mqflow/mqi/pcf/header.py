"""MQEPH, the embedded PCF header: PCF parameters in front of the message data, and the description of that data.

This module knows one layout: 32 bytes, then the PCF message with its own header.
Source: IBM, MQEPH; the layout table of the MQEPH (version 1).
"""

import struct
from typing import Final

from msgspec import Struct

from mqflow.mqi.descriptor import CCSID_INHERIT
from mqflow.mqi.errors import error_for
from mqflow.mqi.layout import FIELD_CCSID, byte_order, from_field, to_field
from mqflow.mqi.options import Encoding
from mqflow.mqi.pcf.pcf_reader import parse as parse_pcf
from mqflow.mqi.pcf.structures import CFH, CFH_BYTES, PCFError, PCFMessage
from mqflow.mqi.pcf.structures import to_bytes as pcf_to_bytes
from mqflow.mqi.reason_codes import Reason

__all__ = ("EmbeddedPCFHeader", "parse", "to_bytes")

_LAYOUT: Final = "4s4i8si"
_OWN_BYTES: Final = 32
_VERSION: Final = 1


class EmbeddedPCFHeader(Struct, frozen=True, kw_only=True):
    """PCF in front of a message (MQEPH version 1)."""

    #: Encoding, CodedCharSetId and Format of the data behind this header.
    encoding: int = Encoding.NATIVE
    ccsid: int = CCSID_INHERIT
    format: str = ""
    #: MQEPH_CCSID_EMBEDDED (1): each text has a character set of its own.
    flags: int = 0
    message: PCFMessage = PCFMessage(CFH())


def parse(data: bytes, *, encoding: int, ccsid: int = FIELD_CCSID) -> tuple[EmbeddedPCFHeader, int]:
    """Return the header at the beginning of the data, and its length in bytes.

    `encoding` and `ccsid` come from the descriptor or header before it. Raises `MQIError` 2420 (MQRC_EPH_ERROR) if the header,
    or the PCF in it, is malformed.
    """
    if len(data) < _OWN_BYTES + CFH_BYTES or data[:4] != to_field("EPH", 4, ccsid):
        raise _wrong(f"{len(data)} bytes that start with {data[:4]!r} are not an MQEPH")
    _, version, length, next_encoding, next_ccsid, next_format, flags = struct.unpack_from(byte_order(encoding) + _LAYOUT, data)
    if version != _VERSION or not _OWN_BYTES + CFH_BYTES <= length <= len(data):
        raise _wrong(f"It has version {version} and {length} of {len(data)} bytes (read with encoding {encoding})")
    try:
        message = parse_pcf(data[_OWN_BYTES:length], encoding=encoding, ccsid=ccsid)
    except PCFError as error:
        raise _wrong(str(error)) from error
    header = EmbeddedPCFHeader(
        encoding=next_encoding, ccsid=next_ccsid, format=from_field(next_format, ccsid), flags=flags, message=message
    )
    return header, length


def to_bytes(header: EmbeddedPCFHeader, *, encoding: int, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the bytes of the header, in the `encoding` and `ccsid` of the descriptor or header before it."""
    message = pcf_to_bytes(header.message, encoding=encoding, ccsid=ccsid)
    return (
        struct.pack(
            byte_order(encoding) + _LAYOUT,
            to_field("EPH", 4, ccsid),
            _VERSION,
            _OWN_BYTES + len(message),
            header.encoding,
            header.ccsid,
            to_field(header.format, 8, ccsid),
            header.flags,
        )
        + message
    )


def _wrong(detail: str) -> Exception:
    return error_for(Reason.EPH_ERROR, "Reading an MQEPH", detail=detail)
