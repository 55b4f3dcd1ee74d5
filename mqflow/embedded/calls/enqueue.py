"""The last step of every put: check the room on the queue, and give the message a serial number and a position.

The message is added to a unit of work, or is available immediately. Puts of applications and puts of the queue manager both
end with this step. Callers hold the queue manager's lock.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC
from mqflow.embedded.calls.settle import release
from mqflow.embedded.calls.wait import notify
from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.rules.put_plan import PutPlan
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import QueuedMessage, order_key
from mqflow.embedded.state.objects import LocalQueue, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.staging_order import order_priority
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.descriptor import CCSID_Q_MGR, NO_ID, MessageDescriptor
from mqflow.mqi.headers.delay import FORMAT as STAGED
from mqflow.mqi.headers.transmission import to_bytes
from mqflow.mqi.options import ApplicationType, Encoding, Format, Persistence
from mqflow.mqi.reason_codes import Reason

__all__ = ("check_not_staged", "check_persistence", "check_room", "must_be_durable", "place", "resolved", "transmitted")

_FIFO: Final = 1
_PERSISTENT: Final = int(Persistence.PERSISTENT)
_AS_Q_DEF: Final = int(Persistence.AS_Q_DEF)


def resolved(
    state: QueueManagerState,
    descriptor: MessageDescriptor,
    defaults: QueueAttributes | TopicAttributes,
    plan: PutPlan,
    expiry_tenths: int,
) -> MessageDescriptor:
    """Return the descriptor with this expiry, and with its defaults resolved. `defaults` decides the *_AS_Q_DEF values."""
    fresh = plan.new_message_id or descriptor.message_id == NO_ID
    reply_to_queue, reply_to_queue_manager = "", ""
    if descriptor.reply_to_queue and not plan.suppress_reply_to:
        reply_to_queue, reply_to_queue_manager = state.reply_target(
            descriptor.reply_to_queue, descriptor.reply_to_queue_manager
        )
    return replace(
        descriptor,
        persistence=defaults.default_persistence if descriptor.persistence == _AS_Q_DEF else descriptor.persistence,
        priority=defaults.default_priority if descriptor.priority < 0 else descriptor.priority,
        message_id=state.identifiers.identifier() if fresh else descriptor.message_id,
        correlation_id=state.identifiers.identifier() if plan.new_correlation_id else descriptor.correlation_id,
        ccsid=state.attributes.ccsid if descriptor.ccsid == CCSID_Q_MGR else descriptor.ccsid,
        expiry_tenths=expiry_tenths,
        backout_count=0,
        reply_to_queue=reply_to_queue,
        reply_to_queue_manager=reply_to_queue_manager,
    )


def check_room(state: QueueManagerState, queue: LocalQueue, body_bytes: int) -> None:
    """Refuse a message that is too long for the queue (2030) or the queue manager (2031). Refuse a full queue with 2053."""
    attributes = queue.attributes
    if body_bytes > attributes.max_message_bytes:
        raise Refusal(Reason.MSG_TOO_BIG_FOR_Q, f"{body_bytes} bytes; MAXMSGL is {attributes.max_message_bytes}")
    if body_bytes > state.attributes.max_message_bytes:
        raise Refusal(Reason.MSG_TOO_BIG_FOR_Q_MGR, f"{body_bytes} bytes; MAXMSGL is {state.attributes.max_message_bytes}")
    if queue.depth >= attributes.max_depth:
        if state.attributes.performance_event and state.watcher is not None:
            state.watcher.full(queue)
        raise Refusal(Reason.Q_FULL, f"MAXDEPTH is {attributes.max_depth}")


def check_not_staged(queue: LocalQueue, descriptor: MessageDescriptor) -> None:
    """If the queue is the staging queue, refuse with 2035 a report or a publication with the format of a staged message.

    A program chooses the data of the report or publication, so it could forge the target queue of a staged message.
    """
    if queue.attributes.name == STAGING_QUEUE and descriptor.format == STAGED:
        raise Refusal(Reason.NOT_AUTHORIZED, f"Only a put with a delay places messages on {STAGING_QUEUE}")


def check_persistence(queue: LocalQueue, persistence: int) -> None:
    """Refuse a persistent message on a temporary dynamic queue (2048)."""
    if persistence == _PERSISTENT and queue.attributes.definition_type == TEMPORARY_DYNAMIC:
        raise Refusal(Reason.PERSISTENT_NOT_ALLOWED)


def place(
    state: QueueManagerState,
    unit: UnitOfWork | None,
    queue: LocalQueue,
    descriptor: MessageDescriptor,
    body: bytes,
    now_s: float,
) -> QueuedMessage:
    """Add the message to the unit of work, or to the queue if `unit` is None.

    Messages arrive in the order of these calls, not in the order of the commits. A message for which `must_be_durable` is true
    needs a unit of work.
    """
    attributes = queue.attributes
    serial = state.serial()
    # MSGDLVSQ at the arrival of the message decides its place; a later ALTER moves no message (IBM q103300).
    by_priority = attributes.message_delivery_sequence != _FIFO
    priority = min(descriptor.priority, state.attributes.max_priority) if by_priority else attributes.default_priority
    if attributes.name == STAGING_QUEUE:
        priority = order_priority(descriptor, body, state.clock, state.steady_clock)
        wakes, state.when_staged = state.when_staged, []
        for wake in wakes:
            notify(wake)
    tenths = descriptor.expiry_tenths
    message = QueuedMessage(
        order_key(priority, serial),
        serial,
        descriptor,
        body,
        now_s,
        None if tenths < 0 else now_s + tenths / 10,
    )
    if state.monitors(attributes):
        queue.last_put_at = now_s
    if unit is not None:
        unit.add_put(queue, message)
        if queue.selecting:  # a get of the same unit of work can find the message
            queue.select_from(message.key)
    else:
        release(queue, message)
    statistics = queue.statistics
    statistics.enqueued += 1
    statistics.put_bytes += len(body)
    if (depth := queue.depth) > statistics.high_depth:
        statistics.high_depth = depth
    if (attributes.trigger or state.attributes.performance_event) and state.watcher is not None:
        state.watcher.put(queue, message, unit)
    return message


def must_be_durable(state: QueueManagerState, descriptor: MessageDescriptor) -> bool:
    """True if a message must be in the store, and so in a unit of work, before it is available."""
    return state.durable and descriptor.persistence == _PERSISTENT


def transmitted(
    state: QueueManagerState, descriptor: MessageDescriptor, body: bytes, to: tuple[str, str]
) -> tuple[MessageDescriptor, bytes]:
    """Return the message in its form on a transmission queue: an MQXQH before the data, and a new descriptor (IBM, MQXQH)."""
    outer = replace(
        descriptor,
        report=0,
        format=Format.XMIT_Q_HEADER,
        encoding=Encoding.NATIVE,
        ccsid=state.attributes.ccsid,
        message_id=state.identifiers.identifier(),
        correlation_id=descriptor.message_id,
        reply_to_queue="",
        reply_to_queue_manager="",
        put_application_type=ApplicationType.QMGR,
        put_application_name=state.name[:28],
        application_origin_data="",
        group_id=NO_ID,
        sequence_number=1,
        offset=0,
        message_flags=0,
        original_length=-1,
    )
    return outer, to_bytes(*to, descriptor, ccsid=state.attributes.ccsid) + body
