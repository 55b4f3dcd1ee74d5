"""MQGET for many messages in one step: those of which nothing special is asked, one after the other.

What makes a message special (an expiry, a report, properties, a group, a body on disk) is left to `getting`, one by one. Called
under the machine's lock.
"""

from typing import Final

from mqflow.embedded.get_rules import GetPlan, Reach, Within
from mqflow.embedded.getting import MAY_HAVE_PROPERTIES, check_get
from mqflow.embedded.handle import EmbeddedHandle
from mqflow.embedded.local_queue import BEFORE_FIRST, LocalQueue, QueuedMessage
from mqflow.embedded.machine import Machine
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.verbs import Got

__all__ = ("get_plain",)

_SAVE_ALL_CONTEXT: Final = int(OpenOption.SAVE_ALL_CONTEXT)


def get_plain(machine: Machine, handle: EmbeddedHandle, plan: GetPlan, most: int, bytes_max: int) -> list[Got]:
    """Take up to `most` messages, of `bytes_max` together, into the unit of work; end before the first that is special.

    Empty where the get itself is special. Refuses what `check_get` does.
    """
    queue = check_get(machine, handle, plan)
    unit: list[Got] = []
    if not _is_plain_get(handle, plan) or not _is_plain_queue(queue, handle):
        return unit
    own = handle.connection.unit_of_work
    name = queue.attributes.name
    mark = machine.store.mark_in_flight
    room = min(most, machine.attributes.max_uncommitted_messages - own.operations)
    while len(unit) < room:
        message = queue.next_match(None, BEFORE_FIRST)
        if message is None or not _is_plain(message) or (body := message.body) is None or len(body) > bytes_max:
            break
        if message.stored:
            try:
                own.marks.append(mark(message.serial, 0, harden=False))
            except MQIError:  # the next get meets it again, and says so
                break
        queue.take(message)
        own.add_get(queue, message)
        bytes_max -= len(body)
        unit.append(
            Got(
                descriptor=message.descriptor,
                body=body,
                data_bytes=len(body),
                resolved_queue=name,
                message_token=message.serial.to_bytes(16, "big"),
            )
        )
    return unit


def _is_plain_get(handle: EmbeddedHandle, plan: GetPlan) -> bool:
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
        and not handle.bits & _SAVE_ALL_CONTEXT
    )


def _is_plain_queue(queue: LocalQueue, handle: EmbeddedHandle) -> bool:
    attributes = queue.attributes
    return not (
        queue.locks
        or attributes.monitoring > 0
        or attributes.harden_get_backout
        or handle.connection.unit_of_work.holds_puts_to(queue)
    )


def _is_plain(message: QueuedMessage) -> bool:
    descriptor = message.descriptor
    return not (
        descriptor.backout_count  # goes by itself, or ends a unit of work
        or descriptor.report
        or descriptor.message_flags
        or message.expires_at is not None
        or descriptor.format in MAY_HAVE_PROPERTIES
    )
