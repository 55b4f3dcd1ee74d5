"""MQPUT for many messages in one step: what is the same for all of them is worked out for the first.

Messages with the same descriptor record differ in their identifier, body and place only; everything else is left to `putting`,
one by one. Called under the machine's lock.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_room, place
from mqflow.embedded.calls.put import put_message
from mqflow.embedded.rules.put_plan import PutPlan
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.handle import EmbeddedHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import NO_ID, MessageDescriptor
from mqflow.mqi.headers.delay import FORMAT as STAGED
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Put

__all__ = ("put_messages",)


def put_messages(
    state: QueueManagerState,
    handle: EmbeddedHandle,
    messages: Iterable[tuple[MessageDescriptor, bytes]],
    plan: PutPlan,
    context: object,
    puts: list[Put],
) -> None:
    """Place the messages into the unit of work, in order, and add to `puts` what MQPUT fills in for each.

    Refuses what `put_message` does; what was put before stands.
    """
    last: MessageDescriptor | None = None
    like: Put | None = None
    for descriptor, body in messages:
        if like is not None and descriptor is last:
            put = _put_like(state, handle, like, body)
        else:
            put, _ = put_message(state, handle, descriptor, body, plan, context)
            last, like = descriptor, put if _repeats(handle, descriptor, plan) else None
        puts.append(put)


def _put_like(state: QueueManagerState, handle: EmbeddedHandle, like: Put, body: bytes) -> Put:
    queue, unit = handle.queue, handle.connection.unit_of_work
    assert queue is not None  # noqa: S101 - the message before went there
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


def _repeats(handle: EmbeddedHandle, descriptor: MessageDescriptor, plan: PutPlan) -> bool:
    """Whether the next message with the same descriptor differs from this one in its identifier only."""
    return not (
        handle.topic is not None
        or plan.logical
        or plan.new_correlation_id
        or descriptor.report
        or descriptor.message_flags
        or descriptor.format == STAGED
        or handle.logical.put is not None
    ) and (plan.new_message_id or descriptor.message_id == NO_ID)
