"""What MQGET does to a message with MQGMO_CONVERT: its text and its headers, as the receiver wants them.

Text (MQSTR) goes to the wanted character set; numbers and fields of the headers go to the wanted encoding and character set.
All or nothing: where one part cannot be converted the message stays as it is, and the reason is a warning. No character is ever
replaced by another: text that the wanted character set cannot say is a failure. Knows no queue.
Source: IBM, MQGMO_CONVERT and the reason codes 2110 to 2120. What a queue manager does with a body without format behind
headers that it can convert could not be confirmed; here it stays as it is, and the last header goes on to describe it.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.mqi.ccsid import UTF_16_CCSIDS, decode, encode, is_known
from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError, error_for
from mqflow.mqi.headers.chain import HEADER_FORMATS, QUEUE_MANAGER_CCSID, Header, Headers, join, resolved, split
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
    """Return the message in the wanted character set and encoding, and 0; or as it came, and the reason of the warning.

    `ccsid` 0 wants the queue manager's own; `bytes_max` is how much the receiver can take. The reasons: 2110 no format that can
    be converted, or a broken header; 2111 and 2115 the message's, or the wanted, character set is unknown; 2112 and 2116 the
    same of the byte order; 2119 bytes that are no text, or text that the wanted set lacks; 2120 longer than `bytes_max`.
    """
    wanted = resolved(ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    present = resolved(descriptor.ccsid, before=queue_manager_ccsid, queue_manager_ccsid=queue_manager_ccsid)
    as_wanted = (present, descriptor.encoding) == (wanted, encoding)
    if as_wanted and descriptor.format not in HEADER_FORMATS:
        return descriptor, body, Reason.NONE
    try:
        _check_character_sets(descriptor, present, wanted)
        parts = split(descriptor, body, queue_manager_ccsid=queue_manager_ccsid)
        if as_wanted and all(_follows_as(header, wanted, encoding) for header in parts.chain):
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


def _follows_as(header: Header, ccsid: int, encoding: int) -> bool:
    """Return whether what follows the header, itself in this character set, is in it and in the encoding."""
    return header.encoding == encoding and header.ccsid in {ccsid, CCSID_INHERIT}


def _converted(descriptor: MessageDescriptor, parts: Headers, ccsid: int, encoding: int) -> tuple[MessageDescriptor, bytes]:
    # The fields of a header have one byte a character: in front of UTF-16 text they are UTF-8, and say that the text is UTF-16.
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
    """Return the body, and the Encoding and CodedCharSetId that describe it now."""
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
    """Refuse an encoding that says no byte order, where there are numbers or two-byte characters to read or write by it."""
    text = parts.format == Format.STRING
    if not _says_byte_order(source) and (parts.chain or (text and parts.ccsid in UTF_16_CCSIDS)):
        raise error_for(Reason.SOURCE_INTEGER_ENC_ERROR, _VERB)
    if not _says_byte_order(wanted) and (parts.chain or (text and wanted_ccsid in UTF_16_CCSIDS)):
        raise error_for(Reason.TARGET_INTEGER_ENC_ERROR, _VERB)


def _says_byte_order(encoding: int) -> bool:
    return encoding & Encoding.INTEGER_MASK in {Encoding.INTEGER_REVERSED, Encoding.NORMAL & Encoding.INTEGER_MASK}
