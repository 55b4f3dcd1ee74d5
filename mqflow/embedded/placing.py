"""How a message comes onto a queue: room checked, serial and place given, into a unit of work or available at once.

The common last step of every put, the applications' and the queue manager's own. Called under the machine's lock.
"""

from typing import Final

from mqflow.embedded.local_queue import LocalQueue, QueuedMessage, order_key
from mqflow.embedded.machine import Machine
from mqflow.embedded.refusal import Refusal
from mqflow.embedded.settling import begin_commit, release
from mqflow.embedded.unit_of_work import UnitOfWork
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.mqi.reason_codes import Reason

__all__ = ("check_room", "place")

_FIFO: Final = 1
_PERSISTENT: Final = int(Persistence.PERSISTENT)


def check_room(machine: Machine, queue: LocalQueue, body_bytes: int) -> None:
    """Refuse what is too long for the queue (2030) or the queue manager (2031), and anything on a full queue (2053)."""
    attributes = queue.attributes
    if body_bytes > attributes.max_message_bytes:
        raise Refusal(Reason.MSG_TOO_BIG_FOR_Q, f"{body_bytes} bytes; MAXMSGL is {attributes.max_message_bytes}")
    if body_bytes > machine.attributes.max_message_bytes:
        raise Refusal(Reason.MSG_TOO_BIG_FOR_Q_MGR, f"{body_bytes} bytes; MAXMSGL is {machine.attributes.max_message_bytes}")
    if len(queue.messages) + queue.uncommitted >= attributes.max_depth:
        raise Refusal(Reason.Q_FULL, f"MAXDEPTH is {attributes.max_depth}")


def place(
    machine: Machine, unit: UnitOfWork | None, queue: LocalQueue, descriptor: MessageDescriptor, body: bytes, now_s: float
) -> QueuedMessage:
    """Put the message into the unit of work, or without one onto the queue. Its place is that of its arrival, which is now."""
    attributes = queue.attributes
    serial = machine.serial()
    # The ordering in force when the message arrives decides; later ALTERs move nothing (IBM q103300).
    by_priority = attributes.message_delivery_sequence != _FIFO
    priority = min(descriptor.priority, machine.attributes.max_priority) if by_priority else attributes.default_priority
    tenths = descriptor.expiry_tenths
    message = QueuedMessage(
        order_key(priority, serial),
        serial,
        descriptor,
        body,
        len(body),
        now_s,
        None if tenths < 0 else now_s + tenths / 10,
    )
    if attributes.monitoring > 0:
        queue.last_put_at = now_s
    if unit is not None:
        unit.add_put(queue, message)
    elif machine.durable and descriptor.persistence == _PERSISTENT:
        alone = UnitOfWork()
        alone.add_put(queue, message)
        begin_commit(machine, alone, lambda _: None)
    else:
        release(queue, message)
    return message
