"""Groups and segments in puts, gets and browses: reads and updates the positions that a handle retains.

`rules/group_order.py` decides which message comes next. Only this file writes `ObjectHandle.logical`. Callers hold the queue
manager's lock.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

from msgspec.structs import replace

from mqflow.embedded.rules import group_order
from mqflow.embedded.rules.get_plan import GetPlan, Match, Reach, Whole
from mqflow.embedded.rules.put_plan import PutPlan
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST, Backlog, QueuedMessage
from mqflow.embedded.state.objects import ObjectHandle, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.reason_codes import CompletionCode, Reason

__all__ = (
    "arrives_whole",
    "begin_browse",
    "browse_start",
    "complete_in_order",
    "is_whole",
    "planned_get",
    "retain_browse",
    "retain_get",
    "retain_put",
    "segments_of",
    "warn_incomplete",
)

Find: TypeAlias = Callable[[Match, int], QueuedMessage | None]

_PUT: Final = "put"
_GET: Final = "get"
# The longest message of a queue.
_ASSEMBLED_BYTES_MAX: Final = 104_857_600


def complete_in_order(
    state: QueueManagerState, handle: ObjectHandle, plan: PutPlan, descriptor: MessageDescriptor, body_bytes: int
) -> MessageDescriptor:
    """Complete the descriptor of a put with LOGICAL_ORDER: the message becomes the next one in logical order."""
    return group_order.next_put(
        handle.logical.put,
        descriptor,
        body_bytes,
        under_syncpoint=plan.under_syncpoint,
        new_group_id=state.identifiers.identifier,
    )


def retain_put(
    handle: ObjectHandle, unit: UnitOfWork | None, plan: PutPlan, descriptor: MessageDescriptor, body_bytes: int
) -> int:
    """Retain the position after the put; return 2241 or 2242 if a put in physical order interrupts a group or message."""
    before = handle.logical.put
    after = group_order.place_after(descriptor, body_bytes, under_syncpoint=plan.under_syncpoint, logical=plan.logical)
    _retain(handle, unit, _PUT, before, after)
    return Reason.NONE if plan.logical else group_order.left_open(before)


def planned_get(handle: ObjectHandle, plan: GetPlan) -> GetPlan:
    """Return the plan of a get in logical order, or of a browse that continues an earlier browse.

    Refuses with 2259 a browse that changes between logical and physical order, and any get that `in_logical_order` refuses.
    """
    began = handle.logical.browses_logically
    if plan.reach is Reach.BROWSE_NEXT and began is not None and began != plan.logical:
        raise Refusal(Reason.INCONSISTENT_BROWSE, "A browse is in logical order from its first message on, or never")
    return group_order.in_logical_order(plan, handle.logical) if plan.logical else plan


def retain_get(handle: ObjectHandle, unit: UnitOfWork | None, plan: GetPlan, message: QueuedMessage, *, in_unit: bool) -> int:
    """Retain the position after the get; return 2241 or 2242 if a get in physical order interrupts a group or message."""
    before = handle.logical.get
    after = group_order.place_after(message.descriptor, len(message.body), under_syncpoint=in_unit, logical=plan.logical)
    _retain(handle, unit, _GET, before, after)
    return Reason.NONE if plan.logical else group_order.left_open(before)


def begin_browse(handle: ObjectHandle, plan: GetPlan) -> None:
    """Forget the last browse, and remember whether the new browse is in logical order."""
    handle.logical.browse = handle.logical.browse_from = None
    handle.logical.browses_logically = plan.logical


def browse_start(handle: ObjectHandle, plan: GetPlan) -> int:
    """Return the position after which a browse searches. In logical order, the first message of a group gives its position."""
    if not plan.logical:
        return handle.cursor
    if handle.logical.browse is not None:
        return BEFORE_FIRST
    return handle.cursor if handle.logical.browse_from is None else handle.logical.browse_from


def retain_browse(handle: ObjectHandle, plan: GetPlan, message: QueuedMessage) -> None:
    """After a browse in logical order, keep the position behind the browsed message for the next browse."""
    retained = handle.logical
    if retained.browses_logically is None:
        retained.browses_logically = plan.logical
    if not plan.logical:
        return
    if retained.browse is None:
        retained.browse_from = message.key
    retained.browse = group_order.place_after(message.descriptor, len(message.body), under_syncpoint=False, logical=True)


def warn_incomplete(handle: ObjectHandle) -> None:
    """Warn with 2242 or 2241 if a closed handle leaves a message or a group incomplete that was begun in logical order."""
    reason = max(group_order.left_open(handle.logical.put), group_order.left_open(handle.logical.get))
    if reason:
        raise Refusal(
            reason,
            "The handle is closed; the rest of the group or message was never put, or got",
            completion=CompletionCode.WARNING,
        )


def is_whole(plan: GetPlan, message: QueuedMessage, find: Find) -> bool:
    """Return whether the rest of the group or logical message is available.

    Always true for a get with neither MQGMO_ALL_MSGS_AVAILABLE nor MQGMO_ALL_SEGMENTS_AVAILABLE. `find` returns the first
    available message that matches, after a given position in the order of delivery.
    """
    whole = plan.whole
    if whole is None or not group_order.is_part(message.descriptor.message_flags, whole):
        return True
    return group_order.all_available(map(_part, _parts(message, whole, find)), whole) is not None


def segments_of(message: QueuedMessage, find: Find) -> tuple[QueuedMessage, ...]:
    """Return the segments of the logical message of `message`, in order. Empty if a segment is missing.

    Refuses with 2071 more than `_ASSEMBLED_BYTES_MAX`. This limit is mqflow's own.
    """
    found: dict[int, QueuedMessage] = {}
    found_bytes = 0
    for each in _parts(message, Whole.MESSAGE, find):
        found[each.key] = each
        found_bytes += len(each.body)
        if found_bytes > _ASSEMBLED_BYTES_MAX:
            detail = (
                f"A logical message of more than {_ASSEMBLED_BYTES_MAX} bytes is not assembled: get its segments one by one"
            )
            raise Refusal(Reason.STORAGE_NOT_AVAILABLE, detail)
    return tuple(found[part.key] for part in group_order.all_available(map(_part, found.values()), Whole.MESSAGE) or ())


def _parts(message: QueuedMessage, whole: Whole, find: Find) -> Iterator[QueuedMessage]:
    """Yield the messages of the group, or the segments of the logical message, of `message`, in the order of the queue."""
    descriptor = message.descriptor
    number = descriptor.sequence_number if whole is Whole.MESSAGE else None
    match, after = Match(group_id=descriptor.group_id, sequence_number=number), BEFORE_FIRST
    while (found := find(match, after)) is not None:
        after = found.key
        yield found


def _part(message: QueuedMessage) -> group_order.Part:
    placed = message.descriptor
    return group_order.Part(
        sequence_number=placed.sequence_number,
        offset=placed.offset,
        body_bytes=len(message.body),
        flags=placed.message_flags,
        key=message.key,
    )


def arrives_whole(plan: GetPlan, queue: Backlog, message: QueuedMessage) -> bool:
    """Return whether the arrival of `message` lets a waiting get return a message.

    The get returns `message`, or another message of the group that `message` completes.
    """
    descriptor, match = message.descriptor, plan.match or Match()
    number = descriptor.sequence_number if plan.whole is Whole.MESSAGE else match.sequence_number
    if match.group_id not in {None, descriptor.group_id} or match.sequence_number not in {None, number}:
        return False
    candidate = queue.next_match(replace(match, group_id=descriptor.group_id, sequence_number=number), BEFORE_FIRST)
    return candidate is not None and is_whole(plan, candidate, queue.next_match)


def _retain(
    handle: ObjectHandle, unit: UnitOfWork | None, which: str, before: group_order.Place | None, after: group_order.Place | None
) -> None:
    if unit is not None:
        unit.undo.append(partial(setattr, handle.logical, which, before))
    setattr(handle.logical, which, after)  # `which` is the name of a field
