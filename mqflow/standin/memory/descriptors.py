"""Reads and writes the MQMD in a caller's memory, in version 1 or 2, and the MQMDE in front of the data.

Source: IBM, MQMD and MQMDE: a version 1 descriptor has no fields for groups and segments, so the MQMDE has these fields.
"""

from typing import Final, Literal

from msgspec.structs import replace

from mqflow.mqi.descriptor import MQMD1_BYTES, MQMD2_BYTES, NO_ID, MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.headers import descriptor_extension
from mqflow.mqi.headers.descriptor_extension import MDE_BYTES, DescriptorExtension
from mqflow.mqi.options import Format
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.memory.structures import number_at, read, write

__all__ = ("read_descriptor", "with_extension", "without_extension", "write_descriptor")

_SIZES: Final = {1: MQMD1_BYTES, 2: MQMD2_BYTES}


def read_descriptor(address: int, verb: str) -> tuple[MessageDescriptor, Literal[1, 2]]:
    """Return the descriptor at this address, and its version. Raises 2026 or 2257."""
    if not address:
        raise error_for(Reason.MD_ERROR, verb, detail="The MQMD is not there")
    version = number_at(address + 4)
    data = read(address, _SIZES.get(version, MQMD1_BYTES))
    return MessageDescriptor.from_bytes(data), 1 if version == 1 else 2


def write_descriptor(address: int, descriptor: MessageDescriptor, version: Literal[1, 2]) -> None:
    """Write the fields that this version has; write no byte behind them."""
    write(address, descriptor.to_bytes(version))


def without_extension(descriptor: MessageDescriptor, body: bytes) -> tuple[MessageDescriptor, bytes]:
    """Return the version 1 descriptor with the fields of the MQMDE filled in, and the data behind the MQMDE."""
    if descriptor.format != Format.MD_EXTENSION:
        return descriptor, body
    extension = descriptor_extension.parse(body, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    described = replace(
        descriptor,
        format=extension.format,
        encoding=extension.encoding,
        ccsid=extension.ccsid if extension.ccsid > 0 else descriptor.ccsid,
        group_id=extension.group_id,
        sequence_number=extension.sequence_number,
        offset=extension.offset,
        message_flags=extension.message_flags,
        original_length=extension.original_length,
    )
    return described, body[MDE_BYTES:]


def with_extension(descriptor: MessageDescriptor, body: bytes, room: int) -> tuple[MessageDescriptor, bytes]:
    """Return the version 1 descriptor, and the data with an MQMDE in front if the message is in a group or in segments.

    Leaves the MQMDE out if the buffer has no room for it: the message is off the queue already, and its data matter more.
    """
    extension = DescriptorExtension(
        encoding=descriptor.encoding,
        ccsid=descriptor.ccsid,
        format=descriptor.format,
        group_id=descriptor.group_id,
        sequence_number=descriptor.sequence_number,
        offset=descriptor.offset,
        message_flags=descriptor.message_flags,
        original_length=descriptor.original_length,
    )
    nothing_to_say = descriptor.group_id == NO_ID and descriptor.message_flags == 0 and descriptor.offset == 0
    if nothing_to_say or len(body) + MDE_BYTES > room:
        return descriptor, body
    data = descriptor_extension.to_bytes(extension, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    return replace(descriptor, format=Format.MD_EXTENSION), data + body
