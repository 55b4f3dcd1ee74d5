"""MQGET: finds a message, takes or browses it, and returns it in the form that the options request.

Callers hold the queue manager's lock. Source: IBM, MQGET; q096780; "Message expiry"; rc2034, rc2079, rc2080, rc2246, rc2421.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, assert_never

from msgspec.structs import replace

from mqflow.embedded.calls import browse
from mqflow.embedded.calls.groups import (
    begin_browse,
    browse_start,
    is_whole,
    planned_get,
    retain_browse,
    retain_get,
    segments_of,
)
from mqflow.embedded.calls.message_selection import passes_over
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.reports import report_delivery, report_expiration
from mqflow.embedded.calls.settle import begin_commit
from mqflow.embedded.rules.get_plan import GetPlan, Match, Reach, Whole, Within, plan_get
from mqflow.embedded.rules.group_order import assembled, check_found, is_part
from mqflow.embedded.rules.open_options import INPUT
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST, QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import MessageRemoved
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.conversion import convert
from mqflow.mqi.options import Format, OpenOption, Persistence, Report
from mqflow.mqi.properties.rfh2_properties import Parted, PropertyControl, part, projected, to_header
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.verbs import GetOptions, Got

__all__ = ("MAY_HAVE_PROPERTIES", "check_get", "find", "get_message", "planned")

# Plain numbers, because testing the bits of a flag is slow. Constants for members, because looking them up is slow too.
_NEXT: Final = Reach.NEXT
_UNDER_CURSOR: Final = Reach.UNDER_CURSOR
_AT_CURSOR: Final = frozenset({Reach.UNDER_CURSOR, Reach.BROWSE_UNDER_CURSOR})
_BROWSE_FIRST: Final = Reach.BROWSE_FIRST
_UNLOCK: Final = Reach.UNLOCK
_IN_UNIT: Final = Within.UNIT_OF_WORK
_OUTSIDE: Final = Within.NO_UNIT_OF_WORK
_NONE: Final = int(Reason.NONE)
_TRUNCATED: Final = Reason.TRUNCATED_MSG_FAILED
_BROWSE: Final = int(OpenOption.BROWSE)
_SAVE_ALL_CONTEXT: Final = int(OpenOption.SAVE_ALL_CONTEXT)
_DELIVERY: Final = int(Report.COD_MASK)
_EXPIRATION: Final = int(Report.EXPIRATION_MASK)
_PERSISTENT: Final = int(Persistence.PERSISTENT)
MAY_HAVE_PROPERTIES: Final = frozenset({Format.RF_HEADER_2, Format.DEAD_LETTER_HEADER})


def planned(handle: ObjectHandle, options: GetOptions) -> GetPlan:
    """Return the plan of a get with these options. The handle keeps its last plan: applications repeat their options."""
    if handle.get_options is not options or handle.get_plan is None:
        handle.get_plan = plan_get(options)
        handle.get_options = options
    plan = handle.get_plan
    return planned_get(handle, plan) if plan.logical or handle.logical.browses_logically else plan


def check_get(state: QueueManagerState, handle: ObjectHandle, plan: GetPlan) -> LocalQueue:
    """Return the queue of the get. Refuses if the handle is not open for this get, or if gets are inhibited.

    With MQGMO_FAIL_IF_QUIESCING, also refuses while the queue manager quiesces.
    """
    queue = handle.queue
    if plan.reach is _NEXT:
        if not handle.bits & INPUT:
            raise Refusal(Reason.NOT_OPEN_FOR_INPUT)
    else:
        if not handle.bits & _BROWSE:
            raise Refusal(Reason.NOT_OPEN_FOR_BROWSE)
        if not handle.bits & INPUT and (plan.lock or plan.reach in {Reach.UNDER_CURSOR, Reach.UNLOCK}):
            raise Refusal(Reason.NOT_OPEN_FOR_INPUT)
    if queue is None:
        raise Refusal(Reason.NOT_OPEN_FOR_INPUT)
    if state.quiescing and plan.fail_if_quiescing:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if queue.attributes.get_inhibited:
        raise Refusal(Reason.GET_INHIBITED, f"GET(DISABLED) on {queue.name}")
    if handle.alias is not None and handle.alias.attributes.get_inhibited:
        raise Refusal(Reason.GET_INHIBITED, f"GET(DISABLED) on {handle.alias.attributes.name}")
    return queue


def find(state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, plan: GetPlan) -> QueuedMessage | None:
    """Return the message that the get selects, or None. Discard the expired messages that the search meets."""
    if plan.reach is _NEXT:
        own = None if plan.within is _OUTSIDE else handle.connection.unit_of_work
        return _first(state, handle, queue, plan, BEFORE_FIRST, own)
    match plan.reach:
        case Reach.BROWSE_FIRST:
            return _first(state, handle, queue, plan, BEFORE_FIRST, None)
        case Reach.BROWSE_NEXT:
            return _first(state, handle, queue, plan, browse_start(handle, plan), None)
        case Reach.UNDER_CURSOR | Reach.BROWSE_UNDER_CURSOR:
            return _under_cursor(state, handle, queue, unmarked_only=plan.unmarked_only)
        case Reach.UNLOCK:
            return None
        case _:
            assert_never(plan.reach)


def get_message(state: QueueManagerState, handle: ObjectHandle, options: GetOptions) -> Pending[Got | None]:
    """Return the message, or None. A get outside the connection's unit of work can need a unit of work of its own."""
    plan = planned(handle, options)
    queue = check_get(state, handle, plan)
    if plan.reach is _UNLOCK:
        if not browse.unlock(queue, handle):
            raise Refusal(Reason.NO_MSG_LOCKED, completion=CompletionCode.WARNING)
        return Pending(None)
    if plan.reach is _BROWSE_FIRST:
        handle.cursor = BEFORE_FIRST
        begin_browse(handle, plan)
    message = find(state, handle, queue, plan)
    if message is None:
        return Pending(None)
    if plan.logical:
        check_found(plan.asked, message.descriptor)
    parts: Sequence[QueuedMessage] = ()
    mixed = _NONE
    if plan.complete and is_part(message.descriptor.message_flags, Whole.MESSAGE):
        message, parts, mixed = _assembled(state, handle, queue, message, plan)
    got = _as_got(state, handle, queue, message, plan, mixed)
    if got.reason == _TRUNCATED:
        return Pending(got)
    if plan.reach is not _NEXT and plan.reach is not _UNDER_CURSOR:
        _look(state, handle, queue, message, plan)
        return Pending(got)
    own = handle.connection.unit_of_work
    unit = _unit_of_work(state, own, message, plan, len(parts)) if parts else _unit_of_work(state, own, message, plan)
    _take(state, handle, queue, parts or (message,), unit)
    in_unit = unit is own
    if message.descriptor.message_flags or handle.logical.get is not None:
        incomplete = retain_get(handle, unit, plan, message, in_unit=in_unit)
        got = replace(got, reason=got.reason or incomplete)
    return Pending(got) if in_unit else Pending(got, unit)


def _first(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, plan: GetPlan, after: int, unit: UnitOfWork | None
) -> QueuedMessage | None:
    match = plan.match
    if handle.selector is not None:
        after = max(after, handle.passed_over)
    all_unselected = match is None and after == handle.passed_over
    while True:
        message = queue.next_match(match, after)
        if unit is not None and unit.puts:
            message = _earlier(message, unit.next_own(queue, match, after))
        if message is None:
            return None
        if message.expires_at is not None and message.expires_at <= state.clock.wall():
            _expire(state, queue, message, unit)
        elif (queue.locks and browse.locked_by_other(queue, message, handle)) or (
            plan.unmarked_only and browse.hidden_by_mark(queue, message, handle, state.clock.monotonic())
        ):
            after = message.key
            all_unselected = False
        elif passes_over(handle, message):
            after = message.key
            if all_unselected:
                handle.passed_over = after
        elif plan.whole is not None and not is_whole(plan, message, partial(_usable, state, handle, queue, unit)):
            after = message.key
            all_unselected = False
        else:
            return message


def _usable(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, unit: UnitOfWork | None, match: Match, after: int
) -> QueuedMessage | None:
    """Return the first matching message behind `after` that has not expired and that no other handle has locked, or None."""
    while True:
        message = queue.next_match(match, after)
        if unit is not None and unit.puts:
            message = _earlier(message, unit.next_own(queue, match, after))
        if message is None or not (
            (message.expires_at is not None and message.expires_at <= state.clock.wall())
            or (queue.locks and browse.locked_by_other(queue, message, handle))
        ):
            return message
        after = message.key


def _earlier(one: QueuedMessage | None, other: QueuedMessage | None) -> QueuedMessage | None:
    if one is None or other is None:
        return one or other
    return one if one.key < other.key else other


def _under_cursor(state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, *, unmarked_only: bool) -> QueuedMessage:
    message = queue.at(handle.cursor)
    if message is None or browse.locked_by_other(queue, message, handle):
        raise Refusal(Reason.NO_MSG_UNDER_CURSOR)
    if message.expires_at is not None and message.expires_at <= state.clock.wall():
        _expire(state, queue, message, None)
        raise Refusal(Reason.NO_MSG_UNDER_CURSOR, "It expired")
    if unmarked_only and browse.hidden_by_mark(queue, message, handle, state.clock.monotonic()):
        raise Refusal(Reason.MSG_MARKED_BROWSE_CO_OP)
    return message


def _expire(state: QueueManagerState, queue: LocalQueue, message: QueuedMessage, unit: UnitOfWork | None) -> None:
    """Discard an expired message, and put its expiration report. The message can be an uncommitted put of `unit`."""
    own_unit = UnitOfWork()
    if message.descriptor.report & _EXPIRATION:
        report_expiration(state, own_unit, message)
    if unit is not None and message.key in unit.puts:
        unit.take_own(queue, message)
    else:
        queue.take(message)
        state.pages.forget(message)
    _discard(state, own_unit, message)


def _discard(state: QueueManagerState, own_unit: UnitOfWork, message: QueuedMessage) -> None:
    """Remove the message from the store in one step with its report. After a crash, either the report or the message exists.

    If the store has no room for the report, the message is removed without a report.
    """
    if message.stored:
        removed = (MessageRemoved(message.serial),)
        if not own_unit.operations:
            state.store.write(removed, None)
            return
        own_unit.discarded.append(message.serial)
        own_unit.undo.append(partial(state.store.write, removed, None))
    with suppress(MQIError):
        begin_commit(state, own_unit, lambda _: None)


def _as_got(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, message: QueuedMessage, plan: GetPlan, warning: int
) -> Got:
    descriptor, body, properties = _with_remaining_expiry(state, message), message.body, b""
    if descriptor.format in MAY_HAVE_PROPERTIES:
        parted = _parted(state, handle, queue, descriptor, body, plan)
        try:
            properties = to_header(parted.properties)
        except MQIError:  # an error would leave the message on the queue for ever, before all other messages
            parted = Parted(descriptor, body, reason=Reason.RFH_FORMAT_ERROR)
        descriptor, body, warning = parted.descriptor, parted.body, warning or parted.reason
    reason, body_bytes = _NONE, len(body)
    if plan.buffer_bytes_max is not None and body_bytes > plan.buffer_bytes_max:
        body = body[: plan.buffer_bytes_max]
        reason = Reason.TRUNCATED_MSG_ACCEPTED if plan.accept_truncated else _TRUNCATED
    elif plan.convert:
        # If the converted message does not fit the buffer but the original does, the get returns the original, with 2120.
        descriptor, body, reason = convert(
            descriptor,
            body,
            ccsid=plan.ccsid,
            encoding=plan.encoding,
            queue_manager_ccsid=state.attributes.ccsid,
            bytes_max=plan.buffer_bytes_max,
        )
        body_bytes = len(body)
    return Got(
        descriptor=descriptor,
        body=body,
        reason=reason or warning,
        data_bytes=body_bytes,
        resolved_queue=queue.attributes.name,
        message_token=message.serial.to_bytes(16, "big"),
        properties=properties,
    )


def _parted(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, descriptor: MessageDescriptor, body: bytes, plan: GetPlan
) -> Parted:
    """Return the message with its properties in the requested place: in the body, separate, or left out.

    Source: IBM q096760 (MsgHandle), q103350 (PropertyControl): the PROPCTL of the opened name applies, also if this name is an
    alias.
    """
    first = queue.attributes if handle.alias is None else handle.alias.attributes
    control = PropertyControl(first.property_control) if plan.properties is None else plan.properties
    as_defined = plan.properties is None and control is not PropertyControl.FORCE_MQRFH2
    show = part if plan.in_handle or (plan.message_handle and as_defined) else partial(projected, control=control)
    return show(descriptor, body, queue_manager_ccsid=state.attributes.ccsid)


def _with_remaining_expiry(state: QueueManagerState, message: QueuedMessage) -> MessageDescriptor:
    """Return the descriptor with the remaining expiry, at least a tenth of a second: the message has not expired yet."""
    if message.expires_at is None:
        return message.descriptor
    left = max(1, int((message.expires_at - state.clock.wall()) * 10))
    # If the wall clock was set back, the remaining expiry can exceed the sender's expiry: return the sender's expiry then.
    return replace(message.descriptor, expiry_tenths=min(left, message.descriptor.expiry_tenths))


def _look(state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, message: QueuedMessage, plan: GetPlan) -> None:
    handle.cursor = message.key
    retain_browse(handle, plan, message)
    if handle.locked is not None and not (plan.lock and handle.locked == message.key):
        browse.unlock(queue, handle)
    if plan.lock:
        browse.lock(queue, message, handle)
    if plan.mark is not None:
        interval_ms = state.attributes.mark_browse_interval_ms
        lapses_at = None if interval_ms < 0 else state.clock.monotonic() + interval_ms / 1000
        browse.apply_mark(queue, message, handle, plan.mark, lapses_at)


def _take(
    state: QueueManagerState,
    handle: ObjectHandle,
    queue: LocalQueue,
    messages: Sequence[QueuedMessage],
    unit: UnitOfWork | None,
) -> None:
    """Take the message, or the segments of the message, off its queue, in the unit of work of the get."""
    own, statistics = handle.connection.unit_of_work, queue.statistics
    if unit is own and (len(messages) > 1 or messages[0].stored):
        # First the in-flight marks: the store can refuse them with 2192, and a refused get must change nothing.
        own.marks += _marks(state, queue, messages)
    for message in messages:
        if message.key in own.puts:
            own.take_own(queue, message)
        else:
            queue.take(message)
            if unit is not None:
                unit.add_get(queue, message)
        statistics.dequeued += 1
        statistics.got_bytes += len(message.body)
        if state.attributes.performance_event:
            _watched(state, queue, unit)
        if unit is not None and message.descriptor.report & _DELIVERY:
            report_delivery(state, unit, _with_remaining_expiry(state, message), message.body)
    if handle.bits & _SAVE_ALL_CONTEXT:
        handle.saved_context = messages[-1].descriptor
    if handle.locked is not None:
        browse.unlock(queue, handle)
    if state.monitors(queue.attributes):
        queue.last_get_at = state.clock.wall()


def _marks(state: QueueManagerState, queue: LocalQueue, messages: Sequence[QueuedMessage]) -> list[int]:
    """Return an in-flight mark for each stored message. If the store refuses a mark, no mark stays."""
    marks: list[int] = []
    try:
        for message in messages:
            if message.stored:
                harden = queue.attributes.harden_get_backout
                marks.append(state.store.mark_in_flight(message.serial, message.descriptor.backout_count, harden=harden))
    except MQIError:
        state.store.release_in_flight(marks)
        raise
    return marks


def _watched(state: QueueManagerState, queue: LocalQueue, unit: UnitOfWork | None) -> None:
    if state.watcher is not None:
        state.watcher.got(queue)
        if unit is None:
            state.watcher.fell(queue)


def _unit_of_work(
    state: QueueManagerState, own: UnitOfWork, message: QueuedMessage, plan: GetPlan, count: int = 1
) -> UnitOfWork | None:
    """Return `own` for a get under syncpoint; otherwise a new unit of work for this get alone, or None.

    A get of one message needs a new unit of work only if the message is stored, or asks for a report. A get of several segments
    needs one too. For persistent segments, refuses with 2255 if another unit of work is open (rc2255).
    """
    descriptor = message.descriptor
    delivery = descriptor.report & _DELIVERY
    if plan.within is _IN_UNIT or (plan.within is Within.IF_PERSISTENT and descriptor.persistence == _PERSISTENT):
        own.check_room(2 * count if delivery else count, state.attributes.max_uncommitted_messages)
        return own
    if count > 1 and own.operations and descriptor.persistence == _PERSISTENT:
        raise Refusal(Reason.UOW_NOT_AVAILABLE, "The segments need a unit of work of their own, and one is open already")
    return UnitOfWork() if message.stored or delivery or count > 1 else None


def _assembled(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, message: QueuedMessage, plan: GetPlan
) -> tuple[QueuedMessage, tuple[QueuedMessage, ...], int]:
    """Return the logical message, its segments, and the reason of a warning or 0 (MQGMO_COMPLETE_MSG)."""
    if message.descriptor.offset and plan.reach in _AT_CURSOR:
        raise Refusal(Reason.INVALID_MSG_UNDER_CURSOR, "COMPLETE_MSG needs the first segment under the cursor")
    own = None if plan.reach is not _NEXT or plan.within is _OUTSIDE else handle.connection.unit_of_work
    parts = segments_of(message, partial(_usable, state, handle, queue, own))
    if not parts:
        raise Refusal(Reason.NO_MSG_UNDER_CURSOR, "A segment of the logical message is missing")
    descriptor, count, reason = assembled([part.descriptor for part in parts])
    parts = parts[:count]
    body = b"".join(part.body for part in parts)
    return replace(parts[0], descriptor=descriptor, body=body), parts, reason
