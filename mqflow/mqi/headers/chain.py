"""Splits a message into its chain of headers and the application data, and joins headers and data again.

The Format of the MQMD names the first header; each header has the Format, Encoding and CodedCharSetId of the data behind it.
This module knows the chain rule and the list of headers; the module of each header knows its content.
Source: IBM, MQDLH, MQRFH2 and MQMDE; "MQ header structures" on how they are chained.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.ccsid import UTF_16_CCSIDS, decode, is_known
from mqflow.mqi.descriptor import CCSID_INHERIT, CCSID_Q_MGR, MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.headers import dead_letter, descriptor_extension, rfh2
from mqflow.mqi.headers.dead_letter import DLH_BYTES, DeadLetterHeader
from mqflow.mqi.headers.descriptor_extension import MDE_BYTES, DescriptorExtension
from mqflow.mqi.headers.rfh2 import RFH2
from mqflow.mqi.layout import FIELD_CCSID, byte_order
from mqflow.mqi.options import Format
from mqflow.mqi.reason_codes import Reason

__all__ = ("HEADERS_MAX", "HEADER_FORMATS", "QUEUE_MANAGER_CCSID", "Header", "Headers", "join", "resolved", "split", "text")

Header: TypeAlias = DeadLetterHeader | RFH2 | DescriptorExtension

QUEUE_MANAGER_CCSID: Final = 1208
"""The default for the character set of the queue manager, as in `QueueManagerAttributes.ccsid`."""

HEADERS_MAX: Final = 16
"""The most headers of a message. Real messages have fewer; a longer chain is an attack on its reader."""

HEADER_FORMATS: Final = frozenset({Format.DEAD_LETTER_HEADER, Format.RF_HEADER_2, Format.MD_EXTENSION})
"""The formats of headers; the chain ends before any other format, which is the format of the body."""


class Headers(Struct, frozen=True):
    """The headers of a message, in order, and the body behind them."""

    chain: tuple[Header, ...]
    body: bytes
    #: The format of the body, from the last header, or from the descriptor if there is no header.
    format: str
    encoding: int
    #: Never 0 or -2: the real character set replaces these values.
    ccsid: int


def split(descriptor: MessageDescriptor, body: bytes, *, queue_manager_ccsid: int = QUEUE_MANAGER_CCSID) -> Headers:
    """Return the headers at the beginning of the message data, and the body behind them.

    Raises `HeaderError` 2142 (MQRC_HEADER_ERROR) for more than 16 headers. If a header is malformed, `split` raises the errors
    of that header's `parse` (2141, 2334, 2335, 2248; 2119).
    """
    chain: list[Header] = []
    following, encoding = descriptor.format, descriptor.encoding
    ccsid = resolved(descriptor.ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    while following in HEADER_FORMATS:
        if len(chain) == HEADERS_MAX:
            raise error_for(Reason.HEADER_ERROR, "Reading headers", detail=f"There are more than {HEADERS_MAX} of them")
        header, length = _read(following, body, encoding, ccsid)
        chain.append(header)
        body = body[length:]
        following, encoding = header.format, header.encoding
        ccsid = resolved(header.ccsid, before=ccsid, queue_manager_ccsid=queue_manager_ccsid)
    return Headers(tuple(chain), body, following, encoding, ccsid)


def join(
    descriptor: MessageDescriptor,
    chain: Sequence[Header],
    body: bytes,
    *,
    body_format: str | None = None,
    body_encoding: int | None = None,
    body_ccsid: int | None = None,
    queue_manager_ccsid: int = QUEUE_MANAGER_CCSID,
) -> tuple[MessageDescriptor, bytes]:
    """Return the descriptor and the data of the message that has these headers in front of this body.

    `body_*` describe the body; None means the value of the descriptor. The Encoding and CodedCharSetId of the descriptor set
    the layout of the first header. The same fields of each header set the layout of the next header. `join` sets every Format,
    and all three fields of the last header, to describe the data behind that header. `split` and `join` with the
    same values give the same bytes, unless the character set of the descriptor is UTF-16 or unknown. No header can have such
    fields, so the descriptor then has 1208, and the last header names the character set of the body. Raises the errors of each
    header's `to_bytes`.
    """
    of_body = descriptor.format if body_format is None else body_format
    encoding = descriptor.encoding if body_encoding is None else body_encoding
    ccsid = descriptor.ccsid if body_ccsid is None else body_ccsid
    if not chain:
        return replace(descriptor, format=of_body, encoding=encoding, ccsid=ccsid), body
    described = replace(descriptor, format=_format_of(chain[0]), ccsid=_usable(descriptor.ccsid))
    by_encoding = described.encoding
    by_ccsid = resolved(described.ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    parts: list[bytes] = []
    for index, header in enumerate(chain, start=1):
        if index < len(chain):
            linked = _relinked(header, _format_of(chain[index]), header.encoding, header.ccsid)
        else:
            linked = _relinked(header, of_body, encoding, _body_ccsid(header.ccsid, ccsid, by_ccsid, queue_manager_ccsid))
        parts.append(_written(linked, by_encoding, by_ccsid))
        by_encoding = linked.encoding
        by_ccsid = resolved(linked.ccsid, before=by_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    return described, b"".join((*parts, body))


def text(descriptor: MessageDescriptor, body: bytes, *, queue_manager_ccsid: int = QUEUE_MANAGER_CCSID) -> str:
    """Return the text behind the headers, decoded from the character set that the chain gives.

    Raises the errors of `split`, `MQIError` 2111 (MQRC_SOURCE_CCSID_ERROR) for an unknown character set and 2119
    (MQRC_NOT_CONVERTED) for bytes that cannot be decoded.
    """
    parts = split(descriptor, body, queue_manager_ccsid=queue_manager_ccsid)
    return decode(parts.body, parts.ccsid, big_endian=byte_order(parts.encoding) == ">")


def resolved(ccsid: int, *, before: int, queue_manager_ccsid: int) -> int:
    """Return the real CCSID: 0 means the queue manager's CCSID (MQCCSI_Q_MGR), -2 means the CCSID `before` (MQCCSI_INHERIT)."""
    return {CCSID_Q_MGR: queue_manager_ccsid, CCSID_INHERIT: before}.get(ccsid, ccsid)


def _body_ccsid(present: int, wanted: int, before: int, queue_manager_ccsid: int) -> int:
    """Return the CCSID field of the last header; an existing value stays if it has the same meaning."""
    if wanted == CCSID_Q_MGR:  # the put replaces a 0 in the descriptor, but not in a header
        return CCSID_INHERIT if before == queue_manager_ccsid else queue_manager_ccsid
    means = resolved(present, before=before, queue_manager_ccsid=queue_manager_ccsid)
    return present if means == wanted else wanted


def _usable(ccsid: int) -> int:
    """Return a character set for header fields: the given one, or 1208 instead of UTF-16 or an unknown character set."""
    return ccsid if ccsid == CCSID_Q_MGR or (is_known(ccsid) and ccsid not in UTF_16_CCSIDS) else FIELD_CCSID


def _read(named: str, data: bytes, encoding: int, ccsid: int) -> tuple[Header, int]:
    if named == Format.DEAD_LETTER_HEADER:
        return dead_letter.parse(data, encoding=encoding, ccsid=ccsid), DLH_BYTES
    if named == Format.MD_EXTENSION:
        return descriptor_extension.parse(data, encoding=encoding, ccsid=ccsid), MDE_BYTES
    return rfh2.parse(data, encoding=encoding, ccsid=ccsid)


def _written(header: Header, encoding: int, ccsid: int) -> bytes:
    match header:
        case DeadLetterHeader():
            return dead_letter.to_bytes(header, encoding=encoding, ccsid=ccsid)
        case DescriptorExtension():
            return descriptor_extension.to_bytes(header, encoding=encoding, ccsid=ccsid)
        case RFH2():
            return rfh2.to_bytes(header, encoding=encoding, ccsid=ccsid)
        case _:
            assert_never(header)


def _format_of(header: Header) -> str:
    match header:
        case DeadLetterHeader():
            return Format.DEAD_LETTER_HEADER
        case DescriptorExtension():
            return Format.MD_EXTENSION
        case RFH2():
            return Format.RF_HEADER_2
        case _:
            assert_never(header)


def _relinked(header: Header, following: str, encoding: int, ccsid: int) -> Header:
    """Return the header with the Format, Encoding and CodedCharSetId of the data behind it."""
    return replace(header, format=following, encoding=encoding, ccsid=ccsid)
