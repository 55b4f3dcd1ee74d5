"""Undoes the change that a move to a backout requeue queue or dead-letter queue made to a message, and finds the old queue.

This module is the inverse of `policy.poison.moved_message`. It moves nothing.
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
    """A message without the header that its last move added."""

    descriptor: MessageDescriptor
    data: bytes
    #: The queue that the message was on before the move; empty if the message does not name that queue.
    origin_queue: str = ""
    origin_queue_manager: str = ""
    #: The header that was removed: "MQDLH" or "MQRFH2"; empty if no header was removed.
    taken_off: str = ""


def restored(descriptor: MessageDescriptor, data: bytes) -> Restored:
    """Return the message as it was before its last move: without its outermost header, if the move added this header.

    An MQDLH always comes from a move. An MQRFH2 comes from a move if it has exactly the folders that
    `moved_message.to_backout_queue` writes. If a message had an MQRFH2 before its move, the move did not change its bytes. Such
    a message does not name the queue it came from.
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
    why = moved_message.why(descriptor, data)
    if why is None:
        return None
    ccsid = descriptor.ccsid if header.ccsid == CCSID_INHERIT else header.ccsid
    described = replace(descriptor, format=header.format, encoding=header.encoding, ccsid=ccsid)
    return Restored(
        descriptor=described,
        data=data[length:],
        origin_queue=why.queue,
        origin_queue_manager=why.queue_manager,
        taken_off="MQRFH2",
    )
