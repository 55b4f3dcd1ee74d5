"""MQPUT and MQPUT1: check options and authority, complete the descriptor, place the message.

Callers hold the queue manager's lock. Source: IBM, MQPUT. The order of the checks is mqflow's own choice.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_persistence, check_room, must_be_durable, place, resolved, transmitted
from mqflow.embedded.calls.groups import complete_in_order, retain_put
from mqflow.embedded.calls.open import Wanted, close_handle, open_object
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.publish import publish
from mqflow.embedded.calls.put_later import is_delayed, publish_later, put_later, unpacked
from mqflow.embedded.calls.reports import report_arrival
from mqflow.embedded.rules.group_order import physical_put, split
from mqflow.embedded.rules.put_plan import PutPlan, Stamp, check_descriptor, plan_put, with_context
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ConnectionState, LocalQueue, ObjectHandle, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers.delay import FORMAT as STAGED
from mqflow.mqi.headers.transmission import XQH_BYTES
from mqflow.mqi.options import CloseOption, MessageFlag, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Put

__all__ = ("put_message", "put_messages", "put_one")

# Plain numbers, because testing the bits of a flag is slow.
_OUTPUT: Final = int(OpenOption.OUTPUT)
_SAVE_ALL_CONTEXT: Final = int(OpenOption.SAVE_ALL_CONTEXT)
_ARRIVAL: Final = int(Report.COA_MASK)
_MAY_SPLIT: Final = int(MessageFlag.SEGMENTATION_ALLOWED)
_SEGMENT_BYTES_MIN: Final = 16
#: GroupId, MsgSeqNumber and Offset of a message that is in no group and no segment.
_ALONE: Final = (NO_ID, 1, 0)


def put_message(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, options: int, context: object
) -> Pending[Put]:
    """Place the message and return the output of MQPUT. A put outside syncpoint can need a unit of work of its own.

    `options` has the bits of MQPMO. `context` is the input handle that provides the context for the PASS_* options.
    """
    plan = plan_put(options)
    if handle.topic is not None or handle.remote is not None:
        return _put_elsewhere(state, handle, descriptor, body, plan, context)
    queue, first = _target(state, handle, plan)
    saved = _saved_context(handle, plan, context) if plan.open_option else None
    if not isinstance(body, bytes):
        raise Refusal(Reason.BUFFER_ERROR, f"A body is bytes, not {type(body).__name__}")
    delay = None
    if descriptor.format == STAGED:
        descriptor, body, delay = unpacked(state, handle, queue, descriptor, body, plan)
    reason = check_descriptor(descriptor)
    segment_bytes = _segment_bytes(state, queue, len(body)) if descriptor.message_flags & _MAY_SPLIT and delay is None else 0
    check_room(state, queue, segment_bytes or len(body))
    now_s = state.clock.wall()
    complete = _complete(state, handle, queue, first, descriptor, plan, saved, now_s)
    check_persistence(queue, complete.persistence)
    if plan.logical or complete.message_flags or (complete.group_id, complete.sequence_number, complete.offset) != _ALONE:
        complete = _in_group(state, handle, plan, complete, len(body))
    if complete.priority > state.attributes.max_priority:
        reason = Reason.PRIORITY_EXCEEDS_MAXIMUM
    if delay is not None:
        return put_later(state, handle, queue, complete, body, delay, plan).with_value(_output(state, queue, complete, reason))
    if segment_bytes:
        complete, unit = _put_segments(state, handle, queue, complete, body, segment_bytes, plan)
    else:
        arrival = complete.report & _ARRIVAL
        unit = _unit_of_work(state, handle.connection.unit_of_work, plan, complete, operations=2 if arrival else 1)
        message = place(state, unit, queue, complete, body, now_s)
        if unit is not None and arrival:
            report_arrival(state, unit, message)
    if complete.message_flags or handle.logical.put is not None:
        incomplete = retain_put(handle, unit, plan, complete, len(body))
        reason = reason or incomplete
    put = _output(state, queue, complete, reason)
    return Pending(put) if plan.under_syncpoint else Pending(put, unit)


def _in_group(
    state: QueueManagerState, handle: ObjectHandle, plan: PutPlan, descriptor: MessageDescriptor, body_bytes: int
) -> MessageDescriptor:
    """Return the descriptor with the place of the message in its group and its logical message."""
    if plan.logical:
        return complete_in_order(state, handle, plan, descriptor, body_bytes)
    return physical_put(descriptor, body_bytes, state.identifiers.identifier)


def _segment_bytes(state: QueueManagerState, queue: LocalQueue, body_bytes: int) -> int:
    """Return the largest length of a segment; 0 if the message needs no split, or if MAXMSGL is too small for any segment."""
    bytes_max = min(queue.attributes.max_message_bytes, state.attributes.max_message_bytes)
    return bytes_max if body_bytes > bytes_max >= _SEGMENT_BYTES_MIN else 0


def _put_segments(
    state: QueueManagerState,
    handle: ObjectHandle,
    queue: LocalQueue,
    descriptor: MessageDescriptor,
    body: bytes,
    bytes_max: int,
    plan: PutPlan,
) -> tuple[MessageDescriptor, UnitOfWork | None]:
    """Place the segments of a message that is too long for the queue. Return the descriptor with its GroupId, and the unit.

    The unit is the unit of work of the segments. Outside syncpoint, the segments need a unit of work of their own. Refuses with
    2255 if another unit of work is open already (rc2255).
    """
    own = handle.connection.unit_of_work
    if not plan.under_syncpoint and own.operations:
        raise Refusal(Reason.UOW_NOT_AVAILABLE, "The segments need a unit of work of their own, and one is open already")
    if descriptor.group_id == NO_ID:
        descriptor = replace(descriptor, group_id=state.identifiers.identifier())
    segments = split(descriptor, body, bytes_max, state.identifiers.identifier)
    arrival = descriptor.report & _ARRIVAL
    unit = own if plan.under_syncpoint else UnitOfWork()
    unit.check_room(len(segments) * (2 if arrival else 1), state.attributes.max_uncommitted_messages)
    for segment, data in segments:
        message = place(state, unit, queue, segment, data, state.clock.wall())
        if arrival:
            report_arrival(state, unit, message)
    return descriptor, unit


def _put_elsewhere(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, plan: PutPlan, context: object
) -> Pending[Put]:
    if handle.remote is not None:
        return _put_remote(state, handle, handle.remote, descriptor, body, plan, context)
    if plan.logical:
        raise Refusal(Reason.FUNCTION_NOT_SUPPORTED, "Groups and segments are put to queues, not to topics")
    put_to_topic = publish_later if is_delayed(descriptor, body) else publish
    return put_to_topic(state, handle, descriptor, body, plan)


def _put_remote(
    state: QueueManagerState,
    handle: ObjectHandle,
    to: tuple[str, str],
    descriptor: MessageDescriptor,
    body: bytes,
    plan: PutPlan,
    context: object,
) -> Pending[Put]:
    """Place the message on the transmission queue to another queue manager. No channel sends the message on."""
    queue, first = _target(state, handle, plan)
    if handle.through is not None and handle.through.attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {handle.through.attributes.name}")
    saved = _saved_context(handle, plan, context) if plan.open_option else None
    if not isinstance(body, bytes):
        raise Refusal(Reason.BUFFER_ERROR, f"A body is bytes, not {type(body).__name__}")
    if plan.logical or descriptor.format == STAGED:
        raise Refusal(Reason.FUNCTION_NOT_SUPPORTED, "LOGICAL_ORDER and delays are for queues of this queue manager")
    reason = check_descriptor(descriptor)
    check_room(state, queue, len(body) + XQH_BYTES)
    now_s = state.clock.wall()
    complete = _complete(state, handle, queue, first, descriptor, plan, saved, now_s)
    check_persistence(queue, complete.persistence)
    unit = _unit_of_work(state, handle.connection.unit_of_work, plan, complete, operations=1)
    place(state, unit, queue, *transmitted(state, complete, body, to), now_s)
    put = Put(descriptor=complete, resolved_queue=to[0], resolved_queue_manager=to[1], reason=reason)
    return Pending(put) if plan.under_syncpoint else Pending(put, unit)


def put_messages(
    state: QueueManagerState,
    handle: ObjectHandle,
    messages: Iterable[tuple[MessageDescriptor, bytes]],
    options: int,
    context: object,
    puts: list[Put],
) -> Pending[None]:
    """Put the messages in the unit of work, in order, and add the output of each put to `puts`.

    If consecutive messages share a descriptor record, only their MsgId, body and position differ; all other fields are computed
    once. Refuses like `put_message`. The messages before a refused message stay in the unit of work.
    """
    plan = plan_put(options)
    last: MessageDescriptor | None = None
    like: Put | None = None
    for descriptor, body in messages:
        if like is not None and descriptor is last:
            put = _put_like(state, handle, like, body)
        else:
            repeats = _repeats(handle, descriptor, plan)
            put = put_message(state, handle, descriptor, body, options, context).value
            last, like = descriptor, put if repeats else None
        puts.append(put)
    return Pending(None)


def put_one(
    state: QueueManagerState,
    connection: ConnectionState,
    wanted: Wanted,
    descriptor: MessageDescriptor,
    body: bytes,
    options: int,
    context: object,
) -> Pending[Put]:
    """Open the object, place one message and close the object (MQPUT1). Refuses LOGICAL_ORDER with 2046."""
    if plan_put(options).logical:
        raise Refusal(Reason.OPTIONS_ERROR, "MQPUT1 puts one message: LOGICAL_ORDER goes with MQPUT")
    handle = open_object(state, connection, wanted)
    try:
        return put_message(state, handle, descriptor, body, options, context)
    finally:
        close_handle(state, handle, CloseOption.NONE)
        connection.handles.discard(handle)


def _output(state: QueueManagerState, queue: LocalQueue, complete: MessageDescriptor, reason: int) -> Put:
    name = queue.attributes.name
    return Put(descriptor=complete, resolved_queue=name, resolved_queue_manager=state.name, reason=reason)


def _put_like(state: QueueManagerState, handle: ObjectHandle, like: Put, body: bytes) -> Put:
    queue, unit = handle.queue, handle.connection.unit_of_work
    assert queue is not None  # noqa: S101 - the message before went to this queue
    if not isinstance(body, bytes):
        raise Refusal(Reason.BUFFER_ERROR, f"A body is bytes, not {type(body).__name__}")
    check_room(state, queue, len(body))
    unit.check_room(1, state.attributes.max_uncommitted_messages)
    complete = replace(like.descriptor, message_id=state.identifiers.identifier())
    place(state, unit, queue, complete, body, state.clock.wall())
    return Put(
        descriptor=complete,
        resolved_queue=like.resolved_queue,
        resolved_queue_manager=like.resolved_queue_manager,
        reason=like.reason,
    )


def _repeats(handle: ObjectHandle, descriptor: MessageDescriptor, plan: PutPlan) -> bool:
    """True if a next message with the same descriptor differs only in MsgId, body and position. Call it before the put.

    Only the put that interrupts a group or a logical message warns, so a put after it has another reason.
    """
    return not (
        handle.topic is not None
        or handle.remote is not None
        or plan.logical
        or plan.new_correlation_id
        or descriptor.report
        or descriptor.message_flags
        or descriptor.format == STAGED
        or handle.logical.put is not None
    ) and (plan.new_message_id or descriptor.message_id == NO_ID)


def _target(state: QueueManagerState, handle: ObjectHandle, plan: PutPlan) -> tuple[LocalQueue, QueueAttributes]:
    """Return the queue of the put, and the first definition on the way to it: an alias, or the queue itself."""
    queue = handle.queue
    if queue is None or not handle.bits & _OUTPUT:
        raise Refusal(Reason.NOT_OPEN_FOR_OUTPUT)
    if state.quiescing and plan.fail_if_quiescing:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if plan.for_topics:
        raise Refusal(Reason.OPTIONS_ERROR, f"{PutOption(plan.for_topics)!r} is for topics, not for queues")
    first = queue.attributes if handle.alias is None else handle.alias.attributes
    for attributes in (first, queue.attributes):
        if attributes.put_inhibited:
            raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {attributes.name}")
    if handle.manager_alias is not None:
        first = handle.manager_alias.attributes
        if first.put_inhibited:
            raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {first.name}")
    return queue, first


def _saved_context(handle: ObjectHandle, plan: PutPlan, context: object) -> MessageDescriptor | None:
    if not handle.bits & plan.open_option:
        raise Refusal(plan.refused_with)
    if not plan.from_handle:
        return None
    if not isinstance(context, ObjectHandle) or not context.open or context.connection is not handle.connection:
        raise Refusal(Reason.CONTEXT_HANDLE_ERROR, "PASS_* options need an open input handle of the same connection")
    if not context.bits & _SAVE_ALL_CONTEXT:
        raise Refusal(Reason.CONTEXT_HANDLE_ERROR)
    if context.saved_context is None:
        raise Refusal(Reason.CONTEXT_NOT_AVAILABLE)
    return context.saved_context


def _unit_of_work(
    state: QueueManagerState, own: UnitOfWork, plan: PutPlan, descriptor: MessageDescriptor, operations: int
) -> UnitOfWork | None:
    """Return `own` under syncpoint; otherwise a new unit of work for a durable message or a report, or None."""
    if not plan.under_syncpoint:
        return UnitOfWork() if operations > 1 or must_be_durable(state, descriptor) else None
    own.check_room(operations, state.attributes.max_uncommitted_messages)
    return own


def _complete(
    state: QueueManagerState,
    handle: ObjectHandle,
    queue: LocalQueue,
    first: QueueAttributes,
    descriptor: MessageDescriptor,
    plan: PutPlan,
    saved: MessageDescriptor | None,
    now_s: float,
) -> MessageDescriptor:
    """Return the complete descriptor; CAPEXPRY of the opened name and of the queue limit its expiry."""
    tenths = descriptor.expiry_tenths
    for cap in (first.cap_expiry_tenths, queue.attributes.cap_expiry_tenths):
        if cap > 0 and (tenths < 0 or tenths > cap):
            tenths = cap
    by = handle.connection
    stamp = Stamp(by.user, by.application_type, by.application_name, *state.timestamps.of(now_s))
    return with_context(resolved(state, descriptor, first, plan, tenths), plan.context, stamp, saved)
