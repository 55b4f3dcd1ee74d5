"""Puts with a delivery delay: the queue manager places each delayed message as a staged message on the staging queue.

A sender adds a delay header without a target in front of its data. The sender puts this message to the target queue or a topic.
The put checks the target and the sender's authority like any put. Then the put places one staged message, or one for each
subscription, on the staging queue, in the put's unit of work. So a sender needs no authority on the staging queue. Only an
administrator can put a staged message directly on the staging queue.
The delay processor later puts a staged publication to the subscription's queue, and this later put removes the header.
Callers hold the queue manager's lock. Source: IBM, "JMS 2.0 delivery delay", "Authorization", "Publish/subscribe". The header
is mqflow's own.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_room, place
from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.publish import Publication, describe_copy, matching_subscriptions, prepare
from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.rules.put_plan import PutPlan
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, Subscription, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.topic import DeliveryRule
from mqflow.mqi.descriptor import NO_ID, PRIORITY_AS_Q_DEF, MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DelayHeader
from mqflow.mqi.options import ObjectType, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import ClockReading, check_delay, restored, staged
from mqflow.verbs import Put

__all__ = ("is_delayed", "publish_later", "put_later", "unpacked")

_RETAIN: Final = int(PutOption.RETAIN)
_WARN: Final = int(PutOption.WARN_IF_NO_SUBS_MATCHED)
_NOT_OWN: Final = int(PutOption.NOT_OWN_SUBS)
_YES: Final = 2
_NOT_FIXED: Final = 1
_NO_TARGET: Final = f"Delayed messages wait on {STAGING_QUEUE}: it cannot be the target of a delayed message"


def is_delayed(descriptor: MessageDescriptor, body: bytes) -> bool:
    """Return whether a message put to a topic is a delayed publication."""
    header = _header(descriptor, body)
    return header is not None and (header.target_type == ObjectType.TOPIC or not header.target)


def unpacked(
    state: QueueManagerState, handle: ObjectHandle, queue: LocalQueue, descriptor: MessageDescriptor, body: bytes, plan: PutPlan
) -> tuple[MessageDescriptor, bytes, DelayHeader | None]:
    """Return the message to place, and its delay header if the message must be staged, otherwise None.

    The given message has the format of staged messages. The header is removed from a message to stage, and from a staged
    publication that the delay processor puts to the queue of its subscription.
    Refuses with 2046 a delay in logical order, and with 2428 a publication whose subscription has ended.
    Refuses with 2035 a staged message of a user who is no administrator, because such a message can name any target.
    """
    header = _header(descriptor, body)
    if header is not None and not header.target:
        return *_as_sent(descriptor, body, header, plan), header
    if queue.name != STAGING_QUEUE:
        return *_as_published(state, header, descriptor, body), None
    if header is not None and header.target == STAGING_QUEUE:
        raise Refusal(Reason.OPTIONS_ERROR, _NO_TARGET)
    user = handle.connection.user
    if not state.authorities.administers(user):
        detail = (
            f"User {user} does not administer the queue manager, which places delayed messages on {STAGING_QUEUE} by itself"
        )
        raise Refusal(Reason.NOT_AUTHORIZED, f"{detail}: put them to their target, with a delay")
    return descriptor, body, None


def put_later(
    state: QueueManagerState,
    handle: ObjectHandle,
    queue: LocalQueue,
    complete: MessageDescriptor,
    body: bytes,
    header: DelayHeader,
    plan: PutPlan,
) -> Pending[None]:
    """Stage the message, whose descriptor is complete. Its target is the opened name; `queue` is the queue of this name.

    Refuses with 2013 or 2046 a message that cannot be delayed. Refuses with 2046 the staging queue itself, and a cluster queue
    whose binding is fixed. Refuses with 2298 if the staging queue does not exist, and with 2051, 2030 or 2053 if the staging
    queue does not accept the message.
    """
    if queue.name == STAGING_QUEUE:
        raise Refusal(Reason.OPTIONS_ERROR, _NO_TARGET)
    try:
        check_delay(header.delay_ms, complete)  # not earlier: CAPEXPRY can shorten the expiry
    except MQIError as error:
        raise Refusal(error.reason, error.detail) from None
    for attributes in (queue.attributes, handle.alias.attributes if handle.alias is not None else queue.attributes):
        if attributes.cluster.strip("* ") and attributes.default_bind != _NOT_FIXED:
            raise Refusal(Reason.OPTIONS_ERROR, f"The cluster queue {attributes.name} is not defined with DEFBIND(NOTFIXED)")
    on_queue, data = staged(
        complete, body, target=handle.name, delay_ms=header.delay_ms, now=_sent_at(header), backout_count=header.backout_count
    )
    staging = _staging_queue(state)
    _check_staging(state, staging, 1, len(data))
    unit = handle.connection.unit_of_work if plan.under_syncpoint else UnitOfWork()
    unit.check_room(1, state.attributes.max_uncommitted_messages)
    place(state, unit, staging, replace(on_queue, message_id=state.identifiers.identifier()), data, state.clock.wall())
    return Pending(None, None if plan.under_syncpoint else unit)


def publish_later(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, plan: PutPlan
) -> Pending[Put]:
    """Stage a copy for each matching subscription, and return the output of MQPUT.

    Refuses like `publish`. Also refuses with 2046 a retained publication, and with 2502 if PMSGDLV or NPMSGDLV of the topic is
    not ALLAVAIL. Refuses with 2051, 2030 or 2053 if the staging queue does not accept all copies. A refused put stages no copy.
    """
    header = delay_header.parse(body)
    sent, data = restored(descriptor, header, body, _sent_at(header))
    publication, reason = prepare(state, handle, sent, data, plan)
    rules = publication.attributes
    if plan.for_topics & _RETAIN:
        raise Refusal(Reason.OPTIONS_ERROR, "A retained publication cannot be delayed")
    if {rules.persistent_delivery, rules.nonpersistent_delivery} != {int(DeliveryRule.ALL_AVAILABLE)}:
        detail = f"PMSGDLV(ALLAVAIL) and NPMSGDLV(ALLAVAIL) do not both hold for topic {publication.topic}"
        raise Refusal(Reason.PUBLICATION_FAILURE, f"{detail}: it takes no delayed publications")
    subscriptions = matching_subscriptions(state, publication, handle if plan.for_topics & _NOT_OWN else None)
    unit = handle.connection.unit_of_work if plan.under_syncpoint else UnitOfWork()
    _stage(state, unit, publication, subscriptions, header)
    if not subscriptions and plan.for_topics & _WARN:
        reason = Reason.NO_SUBS_MATCHED
    put = Put(descriptor=publication.descriptor, resolved_queue="", resolved_queue_manager="", reason=reason)
    return Pending(put, unit if subscriptions and not plan.under_syncpoint else None)


def _as_sent(descriptor: MessageDescriptor, body: bytes, header: DelayHeader, plan: PutPlan) -> tuple[MessageDescriptor, bytes]:
    sent, data = restored(descriptor, header, body, _sent_at(header))
    if plan.logical:
        raise Refusal(Reason.OPTIONS_ERROR, "A message of a group, or a segment, cannot be delayed")
    return sent, data


def _as_published(
    state: QueueManagerState, header: DelayHeader | None, descriptor: MessageDescriptor, body: bytes
) -> tuple[MessageDescriptor, bytes]:
    """Return the message to put: the publication inside a staged copy, or any other message unchanged.

    Refuses with 2428 if the subscription of a staged copy has ended: removed, expired, or not durable and its handle closed.
    """
    if header is None or header.subscription_id == NO_ID:
        return descriptor, body
    subscription = state.subscriptions.by_identifier(header.subscription_id)
    expires_at = None if subscription is None else subscription.attributes.expires_at
    if subscription is None or (expires_at is not None and expires_at <= state.clock.wall()):
        raise Refusal(Reason.NO_SUBSCRIPTION, "The subscription of this publication has ended")
    copy, data = restored(descriptor, header, body, _now(state))
    # The copy requests no reports and has a new MsgId, like a copy without a delay.
    return replace(copy, report=int(Report.NONE), message_id=state.identifiers.identifier()), data


def _stage(
    state: QueueManagerState, unit: UnitOfWork, publication: Publication, subscriptions: list[Subscription], header: DelayHeader
) -> None:
    staging = _staging_queue(state)
    copies = [_copy(state, publication, subscription, header) for subscription in subscriptions]
    if copies:
        _check_staging(state, staging, len(copies), max(len(data) for _, data in copies))
    unit.check_room(len(copies), state.attributes.max_uncommitted_messages)
    for descriptor, data in copies:
        place(state, unit, staging, descriptor, data, publication.now_s)


def _copy(
    state: QueueManagerState, publication: Publication, subscription: Subscription, header: DelayHeader
) -> tuple[MessageDescriptor, bytes]:
    """Return the staged message for one subscription: the header for the delay processor, then the copy."""
    copy, body = describe_copy(state, publication, subscription)
    queue = state.queues.get(subscription.attributes.destination)
    if isinstance(queue, LocalQueue):
        if queue.attributes.definition_type == TEMPORARY_DYNAMIC:  # a temporary queue takes no persistent message (2048)
            copy = replace(copy, persistence=int(Persistence.NOT_PERSISTENT))
        if copy.priority == PRIORITY_AS_Q_DEF:
            copy = replace(copy, priority=queue.attributes.default_priority)
    # All copies have the MsgId of the publication, so a search by MsgId finds them. `report` is for the delay processor.
    own = replace(
        copy,
        message_id=publication.descriptor.message_id,
        report=publication.descriptor.report,
        expiry_tenths=header.expiry_tenths,
    )
    on_queue, data = staged(
        own,
        body,
        target=subscription.attributes.destination,
        delay_ms=header.delay_ms,
        now=_sent_at(header),
        subscription_id=subscription.attributes.identifier,
        use_dead_letter_queue=publication.attributes.use_dead_letter_queue == _YES,
    )
    return replace(on_queue, message_id=state.identifiers.identifier()), data


def _staging_queue(state: QueueManagerState) -> LocalQueue:
    staging = state.queues.get(STAGING_QUEUE)
    if not isinstance(staging, LocalQueue):
        detail = (
            f"There is no staging queue: DEFINE QLOCAL({STAGING_QUEUE}) DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(104857600)"
        )
        raise Refusal(Reason.FUNCTION_NOT_SUPPORTED, detail)
    return staging


def _check_staging(state: QueueManagerState, staging: LocalQueue, copies: int, body_bytes: int) -> None:
    attributes = staging.attributes
    if attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {STAGING_QUEUE}")
    try:
        check_room(state, staging, body_bytes)
    except Refusal as refusal:
        raise Refusal(refusal.reason, f"{STAGING_QUEUE}: {refusal.detail}") from None
    if staging.depth + copies > attributes.max_depth:
        raise Refusal(Reason.Q_FULL, f"{copies} subscriptions match; MAXDEPTH of {STAGING_QUEUE} is {attributes.max_depth}")


def _header(descriptor: MessageDescriptor, body: bytes) -> DelayHeader | None:
    if descriptor.format != delay_header.FORMAT or not isinstance(body, bytes):
        return None
    try:
        return delay_header.parse(body)
    except HeaderError:
        return None


def _now(state: QueueManagerState) -> ClockReading:
    clock = state.clock
    return ClockReading(
        wall_ms=int(clock.wall() * 1_000), monotonic_ms=int(clock.monotonic() * 1_000), epoch=clock.monotonic_epoch()
    )


def _sent_at(header: DelayHeader) -> ClockReading:
    return ClockReading(wall_ms=header.sent_wall_ms, monotonic_ms=header.sent_monotonic_ms, epoch=header.monotonic_epoch)
