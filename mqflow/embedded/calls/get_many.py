"""MQGET for many plain messages in one step.

A message with an expiry, a report option, properties or a group is special: `get` returns it alone. Callers hold the queue
manager's lock.
"""

from typing import Final

from mqflow.embedded.calls.get import MAY_HAVE_PROPERTIES, check_get, planned
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.rules.get_plan import GetPlan, Reach, Within
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.verbs import GetOptions, Got

__all__ = ("SAVE_ALL_CONTEXT", "get_plain")

SAVE_ALL_CONTEXT: Final = int(OpenOption.SAVE_ALL_CONTEXT)


def get_plain(
    state: QueueManagerState, handle: ObjectHandle, options: GetOptions, most: int, bytes_max: int
) -> Pending[list[Got]]:
    """Take up to `most` messages, together up to `bytes_max` bytes, into the unit of work. Stop before a special message.

    Returns an empty list if the get itself is special. Refuses for the same reasons as `check_get`.
    """
    plan = planned(handle, options)
    queue = check_get(state, handle, plan)
    if not _is_plain_get(handle, plan) or not _is_plain_queue(state, queue, handle):
        return Pending([])
    own = handle.connection.unit_of_work
    room = min(most, state.attributes.max_uncommitted_messages - own.operations)
    room_bytes = bytes_max
    taken: list[QueuedMessage] = []
    unit: list[Got] = []
    name = queue.attributes.name
    for message in queue.first(room):
        body, descriptor = message.body, message.descriptor
        if (body_bytes := len(body)) > bytes_max or not _is_plain(message, descriptor):
            break
        bytes_max -= body_bytes
        taken.append(message)
        unit.append(
            Got(
                descriptor=descriptor,
                body=body,
                data_bytes=body_bytes,
                resolved_queue=name,
                message_token=message.serial.to_bytes(16, "big"),
            )
        )
    # Not earlier: if a message cannot be read, no message is got, and a mark would count a backout at the next start.
    if state.durable and (marked := _marked(state, own, taken)) < len(taken):
        bytes_max += sum([got.data_bytes for got in unit[marked:]])
        del taken[marked:], unit[marked:]
    queue.take_first(taken)
    own.add_gets(queue, taken)
    queue.statistics.dequeued += len(taken)
    queue.statistics.got_bytes += room_bytes - bytes_max
    if taken and handle.bits & SAVE_ALL_CONTEXT:
        handle.saved_context = taken[-1].descriptor
    return Pending(unit)


def _marked(state: QueueManagerState, own: UnitOfWork, messages: list[QueuedMessage]) -> int:
    """Mark the stored messages as in flight. Return the number of messages before the first that the store does not mark."""
    for count, message in enumerate(messages):
        if message.stored:
            try:
                own.marks.append(state.store.mark_in_flight(message.serial, 0, harden=False))
            except MQIError:  # the next get also receives the error, and raises it
                return count
    return len(messages)


def _is_plain_get(handle: ObjectHandle, plan: GetPlan) -> bool:
    return (
        plan.reach is Reach.NEXT
        and plan.within is Within.UNIT_OF_WORK
        and plan.match is None
        and plan.buffer_bytes_max is None
        and not plan.convert
        and not plan.logical
        and handle.logical.get is None
        and handle.selector is None
        and handle.locked is None
    )


def _is_plain_queue(state: QueueManagerState, queue: LocalQueue, handle: ObjectHandle) -> bool:
    attributes = queue.attributes
    return not (
        queue.locks
        or state.monitors(attributes)
        or state.attributes.performance_event
        or attributes.harden_get_backout
        or handle.connection.unit_of_work.holds_puts_to(queue)
    )


def _is_plain(message: QueuedMessage, descriptor: MessageDescriptor) -> bool:
    return not (
        descriptor.backout_count  # a redelivered message is returned alone, or ends a unit of work
        or descriptor.report
        or descriptor.message_flags
        or message.expires_at is not None
        or descriptor.format in MAY_HAVE_PROPERTIES
    )
