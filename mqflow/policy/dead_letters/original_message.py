"""Makes what a message was before it was moved to a backout requeue queue or a dead-letter queue, and says where it came from.

The inverse of `policy.poison.moved_message`. Knows descriptors and headers; moves nothing.
Source: q096110 for the MQDLH; q032280 for the MQRFH2 that a move adds.
"""

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import rfh2
from mqflow.mqi.options import Format
from mqflow.policy.dead_letters.actions import dead_letter, without_header
from mqflow.policy.poison import moved_message

__all__ = ("Restored", "restored")


class Restored(Struct, frozen=True, kw_only=True):
    """A message without what its last move put in front of it."""

    descriptor: MessageDescriptor
    data: bytes
    #: Where it was before the move; empty where the message does not say.
    origin_queue: str = ""
    origin_queue_manager: str = ""
    #: What was taken off: "MQDLH", "MQRFH2", or nothing.
    taken_off: str = ""


def restored(descriptor: MessageDescriptor, data: bytes) -> Restored:
    """Return the message as it was before its last move: only the outermost header is taken off, and only an added one.

    An MQDLH is always added. An MQRFH2 is where it holds what `moved.to_backout_queue` writes and nothing else; a message that
    had an MQRFH2 of its own was moved byte for byte, and does not say where from.
    """
    letter = dead_letter(descriptor, data)
    if letter is not None:
        described, rest = without_header(letter)
        return Restored(
            descriptor=described,
            data=rest,
            origin_queue=letter.header.destination_queue,
            origin_queue_manager=letter.header.destination_queue_manager,
            taken_off="MQDLH",
        )
    return _without_added_rfh2(descriptor, data) or Restored(descriptor=descriptor, data=data)


def _without_added_rfh2(descriptor: MessageDescriptor, data: bytes) -> Restored | None:
    if descriptor.format != Format.RF_HEADER_2:
        return None
    try:
        header, length = rfh2.parse(data, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    except MQIError:
        return None
    if tuple(folder.name for folder in header.folders) != ("mcd", moved_message.FOLDER):
        return None
    told = moved_message.why(descriptor, data)
    if told is None:
        return None
    ccsid = descriptor.ccsid if header.ccsid == CCSID_INHERIT else header.ccsid
    described = replace(descriptor, format=header.format, encoding=header.encoding, ccsid=ccsid)
    return Restored(
        descriptor=described,
        data=data[length:],
        origin_queue=told.queue,
        origin_queue_manager=told.queue_manager,
        taken_off="MQRFH2",
    )
