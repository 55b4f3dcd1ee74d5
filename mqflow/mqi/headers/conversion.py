"""Converts the text and the headers of a message, as MQGET does with MQGMO_CONVERT.

Text (MQSTR) is converted to the wanted character set; the numbers and fields of headers are converted to the wanted encoding
and character set. If one part cannot be converted, the message stays unchanged, and the reason is a warning. No character is
ever replaced by another: text that the wanted character set lacks is a failure. This module knows no queue.
Source: IBM, MQGMO_CONVERT and the reason codes 2110 to 2120. UNCERTAIN: how a queue manager converts a body without a format
behind headers. Here it converts the headers only. The body stays unchanged, and the last header still describes the body.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.mqi.ccsid import UTF_16_CCSIDS, decode, encode, is_known
from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError, error_for
from mqflow.mqi.headers.chain import HEADER_FORMATS, QUEUE_MANAGER_CCSID, Headers, join, resolved, split
from mqflow.mqi.layout import FIELD_CCSID, byte_order
from mqflow.mqi.options import Encoding, Format
from mqflow.mqi.reason_codes import Reason

__all__ = ("convert",)

_VERB: Final = "Converting a message"


def convert(
    descriptor: MessageDescriptor,
    body: bytes,
    *,
    ccsid: int,
    encoding: int,
    queue_manager_ccsid: int = QUEUE_MANAGER_CCSID,
    bytes_max: int | None = None,
) -> tuple[MessageDescriptor, bytes, int]:
    """Return the converted message and 0, or the unchanged message and the reason of the warning.

    `ccsid` 0 means the character set of the queue manager; `bytes_max` is the size of the receiver's buffer. The reason is 2110
    for a format that cannot be converted, and for a malformed header. The reason is 2111 if the character set of the message is
    unknown, and 2115 if the wanted character set is unknown. It is 2112 if the byte order of the message is unknown, and 2116
    if the wanted byte order is unknown. It is 2119 for bytes that are not text, and for text that the wanted character set
    lacks. It is 2120 for data longer than `bytes_max`.
    """
    wanted = resolved(ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    present = resolved(descriptor.ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    as_wanted = (present, descriptor.encoding) == (wanted, encoding)
    if as_wanted and descriptor.format not in HEADER_FORMATS:
        return descriptor, body, Reason.NONE
    try:
        _check_character_sets(descriptor, present, wanted)
        parts = split(descriptor, body, queue_manager_ccsid=queue_manager_ccsid)
        if as_wanted and all(each.encoding == encoding and each.ccsid in {wanted, CCSID_INHERIT} for each in parts.chain):
            return descriptor, body, Reason.NONE
        _check_byte_orders(parts, descriptor.encoding, wanted, encoding)
        converted, data = _converted(descriptor, parts, wanted, encoding)
    except HeaderError:
        return descriptor, body, Reason.FORMAT_ERROR
    except MQIError as error:
        return descriptor, body, error.reason
    if bytes_max is not None and len(data) > bytes_max:
        return descriptor, body, Reason.CONVERTED_MSG_TOO_BIG
    return converted, data, Reason.NONE


def _converted(descriptor: MessageDescriptor, parts: Headers, ccsid: int, encoding: int) -> tuple[MessageDescriptor, bytes]:
    # Fields of a header have one byte for a character. In front of UTF-16 text the fields are in UTF-8, although the CCSID says
    # UTF-16.
    of_fields = FIELD_CCSID if parts.chain and ccsid in UTF_16_CCSIDS else ccsid
    body, body_encoding, body_ccsid = _converted_body(parts, ccsid, encoding)
    return join(
        replace(descriptor, encoding=encoding, ccsid=of_fields),
        [replace(header, encoding=encoding, ccsid=of_fields) for header in parts.chain],
        body,
        body_format=parts.format,
        body_encoding=body_encoding,
        body_ccsid=body_ccsid,
    )


def _converted_body(parts: Headers, ccsid: int, encoding: int) -> tuple[bytes, int, int]:
    """Return the converted body, with its Encoding and CodedCharSetId."""
    if parts.format == Format.STRING:
        source, target = byte_order(parts.encoding) == ">", byte_order(encoding) == ">"
        if parts.ccsid == ccsid and (source == target or ccsid not in UTF_16_CCSIDS):
            return parts.body, encoding, ccsid
        return encode(decode(parts.body, parts.ccsid, big_endian=source), ccsid, big_endian=target), encoding, ccsid
    nothing_to_do = (parts.ccsid, parts.encoding) == (ccsid, encoding) or not parts.body
    if nothing_to_do or (parts.chain and parts.format == Format.NONE):
        return parts.body, parts.encoding, parts.ccsid
    raise error_for(Reason.FORMAT_ERROR, _VERB)


def _check_character_sets(descriptor: MessageDescriptor, present: int, wanted: int) -> None:
    if present == wanted or descriptor.format not in {Format.STRING, *HEADER_FORMATS}:
        return
    if not is_known(present):
        raise error_for(Reason.SOURCE_CCSID_ERROR, _VERB)
    if not is_known(wanted):
        raise error_for(Reason.TARGET_CCSID_ERROR, _VERB)


def _check_byte_orders(parts: Headers, source: int, wanted_ccsid: int, wanted: int) -> None:
    """Refuse an encoding without a byte order if there are numbers or two-byte characters to read or write."""
    text = parts.format == Format.STRING
    if not _has_byte_order(source) and (parts.chain or (text and parts.ccsid in UTF_16_CCSIDS)):
        raise error_for(Reason.SOURCE_INTEGER_ENC_ERROR, _VERB)
    if not _has_byte_order(wanted) and (parts.chain or (text and wanted_ccsid in UTF_16_CCSIDS)):
        raise error_for(Reason.TARGET_INTEGER_ENC_ERROR, _VERB)


def _has_byte_order(encoding: int) -> bool:
    return encoding & Encoding.INTEGER_MASK in {Encoding.INTEGER_REVERSED, Encoding.NORMAL & Encoding.INTEGER_MASK}
