"""MQXQH, the transmission queue header: the target of a message on a transmission queue, and the descriptor of that message.

This module knows one layout: 104 bytes, and a version 1 descriptor of 324 bytes behind them. If the descriptor needs version 2
fields, an MQMDE follows. Source: IBM, MQXQH (the header, and the descriptor of the message on the transmission queue), MQMD.
"""

import struct
from typing import Final

from msgspec import convert
from msgspec.structs import replace

from mqflow.mqi.ccsid import encode, is_ebcdic
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers import descriptor_extension
from mqflow.mqi.headers.descriptor_extension import DescriptorExtension
from mqflow.mqi.layout import FIELD_CCSID, byte_order, to_field
from mqflow.mqi.options import Encoding, Format

__all__ = ("XQH_BYTES", "to_bytes")

XQH_BYTES: Final = 428
_HEADER: Final = "4si48s48s"
#: The fields of the descriptor with text, or several such fields behind each other.
_TEXTS: Final = ((0, 4), (32, 40), (100, 208), (240, 272), (276, 324))


def to_bytes(queue: str, queue_manager: str, descriptor: MessageDescriptor, *, ccsid: int = FIELD_CCSID) -> bytes:
    """Return the header for a message to this queue, the descriptor of the message, and an MQMDE if one is needed."""
    extension = b""
    if descriptor.message_flags or descriptor.group_id != NO_ID:
        fields = convert(descriptor, DescriptorExtension, from_attributes=True)  # the fields of the same names
        extension = descriptor_extension.to_bytes(fields, encoding=Encoding.NATIVE, ccsid=ccsid)
        descriptor = replace(descriptor, format=Format.MD_EXTENSION, encoding=Encoding.NATIVE, ccsid=ccsid)
    order = byte_order(Encoding.NATIVE)
    header = struct.pack(
        order + _HEADER, to_field("XQH", 4, ccsid), 1, to_field(queue, 48, ccsid), to_field(queue_manager, 48, ccsid)
    )
    embedded = bytearray(descriptor.to_bytes(1, little_endian=order == "<"))
    for at, end in _TEXTS if is_ebcdic(ccsid) else ():
        embedded[at:end] = encode(embedded[at:end].decode("latin-1"), ccsid)
    return header + embedded + extension
