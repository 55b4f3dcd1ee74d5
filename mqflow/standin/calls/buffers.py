"""MQBUFMH, MQMHBUF and MQXCNVC: message properties and text in the buffers of a caller.

`mqi.properties` moves properties between a header and a message handle, and `mqi.ccsid` converts text.
Source: IBM, MQBUFMH, MQMHBUF, MQBMHO, MQMHBO, MQXCNVC; rc2010, rc2046, rc2111, rc2115, rc2143 to rc2146, rc2190,
rc2334, rc2469.
"""

from bisect import bisect_right
from enum import IntFlag
from typing import Final

from mqflow.mqi.c_structures import MQBMHO, MQCHARV, MQMHBO
from mqflow.mqi.ccsid import decode, encode
from mqflow.mqi.errors import error_for
from mqflow.mqi.properties.rfh2_properties import part, with_properties
from mqflow.mqi.properties.set import matcher
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.calls.message_handles import UNASSOCIATED, handle_of
from mqflow.standin.calls.messages import body_at
from mqflow.standin.host import Host
from mqflow.standin.memory.descriptors import read_descriptor, write_descriptor
from mqflow.standin.memory.structures import read, structure_at, write, write_number

__all__ = ("buffer_to_handle", "convert_characters", "handle_to_buffer")

_DELETE_FROM_BUFFER: Final = 0x1
"""MQBMHO_DELETE_PROPERTIES."""
_UTF_8: Final = 1208


class ToBuffer(IntFlag):
    """MQMHBO_*: the options of MQMHBUF."""

    PROPERTIES_IN_MQRFH2 = 0x1
    DELETE_PROPERTIES = 0x2


class Conversion(IntFlag):
    """MQDCC_*: the options of MQXCNVC. Both sides are native, or little-endian, unless a NORMAL option says otherwise."""

    DEFAULT_CONVERSION = 0x1
    FILL_TARGET_BUFFER = 0x2
    SOURCE_ENC_NORMAL = 0x10
    SOURCE_ENC_REVERSED = 0x20
    TARGET_ENC_NORMAL = 0x100
    TARGET_ENC_REVERSED = 0x200


_ALL_CONVERSIONS: Final = sum(Conversion)


def buffer_to_handle(
    host: Host, number: int, hmsg: int, options_at: int, md_at: int, length: int, buffer_at: int, data_length_at: int
) -> int:
    """MQBUFMH: move the properties of the message in the buffer to the message handle, or copy them."""
    options = structure_at(MQBMHO, options_at, "MQBUFMH").number("Options")
    if options & ~_DELETE_FROM_BUFFER:
        raise error_for(Reason.OPTIONS_ERROR, "MQBUFMH", detail=f"MQBMHO.Options 0x{options:x}")
    handle = handle_of(host, number, hmsg, "MQBUFMH")
    descriptor, version = read_descriptor(md_at, "MQBUFMH")
    body = body_at(length, buffer_at, "MQBUFMH")
    parted = part(descriptor, body)
    if parted.reason:
        raise error_for(Reason.RFH_ERROR, "MQBUFMH", detail="The data do not have the form of an MQRFH2")
    handle.hold(parted.properties, parted.descriptor)
    if options & _DELETE_FROM_BUFFER:
        write(buffer_at, parted.body)
        write_descriptor(md_at, parted.descriptor, version)
        length = len(parted.body)
    write_number(data_length_at, length)
    return Reason.NONE


def handle_to_buffer(
    host: Host,
    number: int,
    hmsg: int,
    options_at: int,
    name_at: int,
    md_at: int,
    length: int,
    buffer_at: int,
    data_length_at: int,
) -> int:
    """MQMHBUF: write the properties of these names into the buffer, as an MQRFH2 in front of data that the MQMD describes."""
    options = structure_at(MQMHBO, options_at, "MQMHBUF").number("Options")
    if options & ~sum(ToBuffer):
        raise error_for(Reason.OPTIONS_ERROR, "MQMHBUF", detail=f"MQMHBO.Options 0x{options:x}")
    handle = handle_of(host, number, hmsg, "MQMHBUF")
    descriptor, version = read_descriptor(md_at, "MQMHBUF")
    wanted = matcher(structure_at(MQCHARV, name_at, "MQMHBUF").string("").decode("utf-8", "replace").rstrip(" \0"))
    chosen = tuple(each for each in handle.properties if wanted(each.name))
    described, data = with_properties(descriptor, b"", chosen)
    write_number(data_length_at, len(data))
    if len(data) > length:
        raise error_for(Reason.PROPERTY_VALUE_TOO_BIG, "MQMHBUF", detail=f"{len(data)} bytes, and room for {length}")
    write(buffer_at, data)
    write_descriptor(md_at, described, version)
    if options & ToBuffer.DELETE_PROPERTIES:
        for each in chosen:
            handle.delete(each.name)
    return Reason.NONE


def convert_characters(
    host: Host,
    number: int,
    options: int,
    source_ccsid: int,
    source_length: int,
    source_at: int,
    target_ccsid: int,
    target_length: int,
    target_at: int,
    data_length_at: int,
) -> int:
    """MQXCNVC: convert text from one character set to another. Return 2190 if only a part fits the target."""
    if number != UNASSOCIATED:
        host.hconn(number, "MQXCNVC")
    if options & ~_ALL_CONVERSIONS:
        raise error_for(Reason.OPTIONS_ERROR, "MQXCNVC", detail=f"Options 0x{options:x}")
    for length, address, too_short, missing in (
        (source_length, source_at, Reason.SOURCE_LENGTH_ERROR, Reason.SOURCE_BUFFER_ERROR),
        (target_length, target_at, Reason.TARGET_LENGTH_ERROR, Reason.TARGET_BUFFER_ERROR),
    ):
        if length < 0 or (length and not address):
            raise error_for(too_short if length < 0 else missing, "MQXCNVC", detail=f"Length {length}")
    source = read(source_at, source_length) if source_length else b""
    text = decode(source, source_ccsid or _UTF_8, big_endian=bool(options & Conversion.SOURCE_ENC_NORMAL))
    big_endian, ccsid = bool(options & Conversion.TARGET_ENC_NORMAL), target_ccsid or _UTF_8
    converted, fits = encode(text, ccsid, big_endian=big_endian), len(text)
    if len(converted) > target_length:  # no character is cut in two
        ends = range(1, len(text) + 1)
        fits = bisect_right(ends, target_length, key=lambda end: len(encode(text[:end], ccsid, big_endian=big_endian)))
        converted = encode(text[:fits], ccsid, big_endian=big_endian)
    if options & Conversion.FILL_TARGET_BUFFER:
        blank = encode(" ", ccsid, big_endian=big_endian)
        converted += blank * ((target_length - len(converted)) // len(blank))
    write(target_at, converted)
    write_number(data_length_at, len(converted))
    return Reason.NONE if fits == len(text) else Reason.CONVERTED_STRING_TOO_BIG
