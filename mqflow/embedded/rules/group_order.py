"""Logical order: the next message of a group and the next segment of a logical message, for an open handle.

A queue manager retains the position of a handle's last put, last get and last browse (`Place`). With MQPMO_LOGICAL_ORDER and
MQGMO_LOGICAL_ORDER, this position decides the next put and the next get. The code is pure, except for `Retained`, which
`calls/groups.py` writes. It knows no queue.
Source: IBM, MQMD.MsgFlags, "Logical and physical ordering" (q026270), MatchOptions (q096750), MQGMO (q096780), OriginalLength
(q097590), rc2185, rc2241, rc2242, rc2243, rc2244, rc2245, rc2247, rc2250, rc2251, rc2252, rc2253, rc2259; "Segmentation and
reassembly by queue manager" (q026380). From memory, without a page of IBM: a backout restores the retained positions (MQBACK),
and MQPUT1 refuses LOGICAL_ORDER with 2046 (MQPMO). The fields of a put in physical order (`physical_put`) are from memory too.
UNCERTAIN: whether MQCLOSE also warns after puts in physical order; here it does not warn.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.rules.get_plan import PLACE_MAX, GetPlan, Match, Reach, Whole, Within, matches
from mqflow.embedded.rules.refusal import Refusal
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.options import MessageFlag, MessageType
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "Part",
    "Place",
    "Retained",
    "all_available",
    "assembled",
    "check_found",
    "in_logical_order",
    "is_part",
    "left_open",
    "next_put",
    "physical_put",
    "place_after",
    "split",
)

# Plain numbers, because testing the bits of a flag is slow.
_GROUPED: Final = int(MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP)
_SEGMENTED: Final = int(MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT)
_LAST_MSG: Final = int(MessageFlag.LAST_MSG_IN_GROUP)
_LAST_SEGMENT: Final = int(MessageFlag.LAST_SEGMENT)
_IN_GROUP: Final = int(MessageFlag.MSG_IN_GROUP)
_SEGMENT: Final = int(MessageFlag.SEGMENT)
_REPORT: Final = int(MessageType.REPORT)
_MAY_SPLIT: Final = int(MessageFlag.SEGMENTATION_ALLOWED)
_SEGMENT_UNIT: Final = 16


class Place(Struct, frozen=True, kw_only=True):
    """The position of a handle within a group, within a logical message, or both."""

    group_id: bytes
    #: The sequence number of the last message that was put or got.
    sequence_number: int
    #: The offset of the next segment of the logical message; None if the logical message is complete.
    next_offset: int | None
    #: MSG_IN_GROUP and LAST_MSG_IN_GROUP of the message, which all its segments share.
    group_flags: int
    persistence: int
    under_syncpoint: bool
    #: True if the call used LOGICAL_ORDER.
    logical: bool

    @property
    def reason(self) -> int:
        """The reason of the warning: 2242 for an incomplete logical message, 2241 for an incomplete group."""
        return Reason.INCOMPLETE_GROUP if self.next_offset is None else Reason.INCOMPLETE_MSG


class Part(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """The position and the length of one message of a group, or of one segment of a logical message."""

    sequence_number: int
    offset: int
    body_bytes: int
    flags: int
    #: The position of the message on the queue.
    key: int


class Retained(Struct, eq=False):
    """The positions at which the next put, get and browse continue; None if no group or logical message is incomplete."""

    put: Place | None = None
    get: Place | None = None
    browse: Place | None = None
    #: The key of the first browsed message of the group. It gives the group its position on the queue.
    browse_from: int | None = None
    #: True if the browse began in logical order; None before the first browse.
    browses_logically: bool | None = None


def next_put(
    place: Place | None,
    descriptor: MessageDescriptor,
    body_bytes: int,
    *,
    under_syncpoint: bool,
    new_group_id: Callable[[], bytes],
) -> MessageDescriptor:
    """Return the descriptor with GroupId, MsgSeqNumber and Offset of the next message or segment in logical order.

    Refuses with 2241 or 2242 a message that leaves a group or a logical message incomplete. Refuses with 2185 a change of the
    persistence, and with 2245 a change of the unit-of-work option. Refuses with 2253 an empty segment that is not the last.
    Refuses with 2252 a report that is a segment, if its OriginalLength is less than its length.
    """
    flags = _implied(descriptor.message_flags)
    _check_segment(descriptor, flags, body_bytes)
    if place is None:
        if not flags & (_GROUPED | _SEGMENTED):
            return replace(descriptor, group_id=NO_ID, sequence_number=1, offset=0)
        return replace(descriptor, message_flags=flags, group_id=new_group_id(), sequence_number=1, offset=0)
    if place.next_offset is not None and (not flags & _SEGMENTED or flags & _GROUPED != place.group_flags):
        raise Refusal(Reason.INCOMPLETE_MSG, "The next segment is due, with the same flags for the group")
    if place.next_offset is None and not flags & _GROUPED:
        raise Refusal(Reason.INCOMPLETE_GROUP, "The next message of the group is due")
    if descriptor.persistence != place.persistence:
        raise Refusal(Reason.INCONSISTENT_PERSISTENCE, f"It began with persistence {place.persistence}")
    _check_unit_of_work(place, under_syncpoint=under_syncpoint)
    new_message = place.next_offset is None
    return replace(
        descriptor,
        message_flags=flags,
        group_id=place.group_id,
        sequence_number=place.sequence_number + 1 if new_message else place.sequence_number,
        offset=place.next_offset or 0,
    )


def physical_put(descriptor: MessageDescriptor, body_bytes: int, new_group_id: Callable[[], bytes]) -> MessageDescriptor:
    """Return the descriptor of a put in physical order, without the fields that its flags give no meaning.

    A message of a group, and a segment, get a new GroupId if they have none. Refuses with 2250 a MsgSeqNumber outside of 1 to
    999,999,999. Refuses with 2251 a segment that is not between 0 and 999,999,999, and with 2253 an empty segment that is not
    the last. Refuses with 2252 a report that is a segment, if its OriginalLength is less than its length.
    """
    flags = _implied(descriptor.message_flags)
    _check_segment(descriptor, flags, body_bytes)
    if flags & _GROUPED and not 1 <= descriptor.sequence_number <= PLACE_MAX:
        raise Refusal(Reason.MSG_SEQ_NUMBER_ERROR, f"MsgSeqNumber {descriptor.sequence_number}")
    if flags & _SEGMENTED and not 0 <= descriptor.offset <= PLACE_MAX - body_bytes:
        raise Refusal(Reason.OFFSET_ERROR, f"Offset {descriptor.offset} of {body_bytes} bytes")
    if not flags & (_GROUPED | _SEGMENTED):
        group_id = descriptor.group_id if flags & _MAY_SPLIT else NO_ID
    else:
        group_id = new_group_id() if descriptor.group_id == NO_ID else descriptor.group_id
    return replace(
        descriptor,
        group_id=group_id,
        sequence_number=descriptor.sequence_number if flags & _GROUPED else 1,
        offset=descriptor.offset if flags & _SEGMENTED else 0,
    )


def _check_segment(descriptor: MessageDescriptor, flags: int, body_bytes: int) -> None:
    if not flags & _SEGMENTED:
        return
    if not flags & _LAST_SEGMENT and not body_bytes:
        raise Refusal(Reason.SEGMENT_LENGTH_ZERO, "Only the last segment of a logical message may be empty")
    if descriptor.message_type == _REPORT and descriptor.original_length < body_bytes:
        text = f"OriginalLength {descriptor.original_length} of a report that is a segment, with {body_bytes} bytes of data"
        raise Refusal(Reason.ORIGINAL_LENGTH_ERROR, text)


def place_after(descriptor: MessageDescriptor, body_bytes: int, *, under_syncpoint: bool, logical: bool) -> Place | None:
    """Return the position after a put or a get of this message; None if its group and its logical message are complete."""
    flags = _implied(descriptor.message_flags)
    message_open = bool(flags & _SEGMENTED) and not flags & _LAST_SEGMENT
    if not message_open and (not flags & _GROUPED or flags & _LAST_MSG):
        return None
    return Place(
        group_id=descriptor.group_id,
        sequence_number=descriptor.sequence_number,
        next_offset=descriptor.offset + body_bytes if message_open else None,
        group_flags=flags & _GROUPED,
        persistence=descriptor.persistence,
        under_syncpoint=under_syncpoint,
        logical=logical,
    )


def left_open(place: Place | None) -> int:
    """Return the reason of the warning if a group or message begun in logical order is incomplete; otherwise 0."""
    return place.reason if place is not None and place.logical else Reason.NONE


def in_logical_order(plan: GetPlan, retained: Retained) -> GetPlan:
    """Return the plan of a get with LOGICAL_ORDER: it finds only the next message or segment.

    If no group or message is incomplete, the get finds the first message of a group, or a message outside groups, that matches
    the identifiers. Refuses with 2245 a unit-of-work option that differs from that of the earlier gets of the group.
    """
    if plan.reach not in {Reach.NEXT, Reach.BROWSE_FIRST, Reach.BROWSE_NEXT}:
        return plan
    place = _place_of(plan, retained)
    if place is None:  # only here do ALL_MSGS_AVAILABLE and ALL_SEGMENTS_AVAILABLE have an effect
        asked = plan.match or Match()
        return replace(plan, asked=plan.match, match=Match(
            message_id=asked.message_id, correlation_id=asked.correlation_id, group_id=asked.group_id, serial=asked.serial,
            sequence_number=1, offset=0,
        ))  # fmt: skip
    if plan.reach is Reach.NEXT:
        if_persistent = plan.within is Within.IF_PERSISTENT and bool(place.persistence)
        _check_unit_of_work(place, under_syncpoint=if_persistent or plan.within is Within.UNIT_OF_WORK)
    return replace(
        plan,
        asked=plan.match,
        whole=Whole.MESSAGE if plan.complete else None,
        match=Match(
            group_id=place.group_id,
            sequence_number=place.sequence_number + (place.next_offset is None),
            offset=place.next_offset or 0,
        ),
    )


def is_part(flags: int, whole: Whole) -> bool:
    """Return whether a message with these flags needs its whole group, or logical message, before a get returns it."""
    return bool(flags & (_GROUPED | _SEGMENTED if whole is Whole.GROUP else _SEGMENTED))


def all_available(parts: Iterable[Part], whole: Whole) -> list[Part] | None:
    """Return the parts that form the complete group or logical message, in order; None if a part is missing.

    All parts have the same GroupId; the parts of a logical message also have the same MsgSeqNumber. The given parts can be in
    any order. A part that was put again, and a part behind the last part, are left out.
    """
    expected: tuple[int, int] | None = None
    found: list[Part] = []
    for part in sorted(parts):
        expected = expected or (1 if whole is Whole.GROUP else part.sequence_number, 0)
        place = part.sequence_number, part.offset
        if place > expected:
            return None
        if place < expected:
            continue
        found.append(part)
        flags = _implied(part.flags)
        if flags & _SEGMENTED and not flags & _LAST_SEGMENT:
            expected = part.sequence_number, part.offset + part.body_bytes
        elif whole is Whole.MESSAGE or not flags & _GROUPED or flags & _LAST_MSG:
            return found
        else:
            expected = part.sequence_number + 1, 0
    return None


def split(
    descriptor: MessageDescriptor, body: bytes, bytes_max: int, new_identifier: Callable[[], bytes]
) -> list[tuple[MessageDescriptor, bytes]]:
    """Return the segments of a message with SEGMENTATION_ALLOWED that has more than `bytes_max` bytes.

    Each segment but the last has a multiple of 16 bytes. The first one keeps the MsgId. The descriptor must have a GroupId.
    UNCERTAIN: whether IBM MQ gives a MsgId of its own to each segment, and where it splits data that begins with a header.
    """
    size = bytes_max // _SEGMENT_UNIT * _SEGMENT_UNIT
    flags = _implied(descriptor.message_flags) | _SEGMENT
    # A message that is itself a segment, but not the last one, has no last segment.
    last = _LAST_SEGMENT if not descriptor.message_flags & _SEGMENTED else flags & _LAST_SEGMENT
    return [
        (
            replace(
                descriptor,
                message_flags=flags & ~_LAST_SEGMENT | (last if start + size >= len(body) else 0),
                offset=descriptor.offset + start,
                message_id=new_identifier() if start else descriptor.message_id,
            ),
            body[start : start + size],
        )
        for start in range(0, len(body), size)
    ]


def assembled(descriptors: Sequence[MessageDescriptor]) -> tuple[MessageDescriptor, int, int]:
    """Return the descriptor of a logical message, how many of its segments can be joined, and the reason of a warning or 0.

    Segments with another character set (2243) or another encoding (2244) than the first segment cannot be joined.
    """
    first = descriptors[0]
    for count, each in enumerate(descriptors):
        if each.ccsid != first.ccsid:
            return first, count, Reason.INCONSISTENT_CCSIDS
        if each.encoding != first.encoding:
            return first, count, Reason.INCONSISTENT_ENCODINGS
    return replace(first, message_flags=first.message_flags | _SEGMENTED), len(descriptors), Reason.NONE


def check_found(asked: Match | None, descriptor: MessageDescriptor) -> None:
    """Refuse with 2247 match options if the next message in logical order does not match them."""
    if asked is not None and not matches(asked, descriptor):
        raise Refusal(
            Reason.MATCH_OPTIONS_ERROR, "The next message in logical order does not match: match nothing, or the group"
        )


def _place_of(plan: GetPlan, retained: Retained) -> Place | None:
    match plan.reach:
        case Reach.NEXT:
            return retained.get
        case Reach.BROWSE_NEXT:
            return retained.browse
        case _:
            return None


def _check_unit_of_work(place: Place, *, under_syncpoint: bool) -> None:
    if under_syncpoint != place.under_syncpoint:
        began = "in a unit of work" if place.under_syncpoint else "outside a unit of work"
        raise Refusal(Reason.INCONSISTENT_UOW, f"The group or logical message began {began}")


def _implied(flags: int) -> int:
    """Return the flags, with the flags that a last message or a last segment implies."""
    if flags & _LAST_MSG:
        flags |= _IN_GROUP
    return flags | _SEGMENT if flags & _LAST_SEGMENT else flags
