"""Delayed publications: the put stages one message for each subscription.

A staged message is delivered if its subscription still exists when the delay is over.

A sender publishes the header of a delayed message in front of its data. The put places the staged messages on the staging
queue, in its unit of work. The delay processor puts a staged message to the subscription's queue; this put removes the header.
Callers hold the lock. Source: IBM, "JMS 2.0 delivery delay", "Publish/subscribe"; the header is ours.
"""

from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_room, place
from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC
from mqflow.embedded.calls.pending import Pending
from mqflow.embedded.calls.publish import Publication, describe_copy, matching_subscriptions, prepare
from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.rules.put_plan import PutPlan
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, Subscription, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.topic import DeliveryRule
from mqflow.mqi.descriptor import NO_ID, PRIORITY_AS_Q_DEF, MessageDescriptor
from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DelayHeader
from mqflow.mqi.options import ObjectType, Persistence, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import Moment, restored, staged
from mqflow.verbs import Put

__all__ = ("as_published", "is_delayed", "publish_later")

_RETAIN: Final = int(PutOption.RETAIN)
_WARN: Final = int(PutOption.WARN_IF_NO_SUBS_MATCHED)
_NOT_OWN: Final = int(PutOption.NOT_OWN_SUBS)
_YES: Final = 2


def is_delayed(descriptor: MessageDescriptor, body: bytes) -> bool:
    """Return whether the message is a delayed publication."""
    header = _header(descriptor, body)
    return header is not None and header.target_type == ObjectType.TOPIC


def publish_later(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, plan: PutPlan
) -> Pending[Put]:
    """Stage a copy for every subscription; return the output of MQPUT.

    Refuses like `publish`. It also refuses with 2046 a retained publication, and with 2502 if PMSGDLV or NPMSGDLV of the
    topic is not ALLAVAIL. It refuses with 2051, 2030 or 2053 if the staging queue does not accept all copies. After a
    refusal no copy is staged.
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


def as_published(
    state: QueueManagerState, queue: LocalQueue, descriptor: MessageDescriptor, body: bytes
) -> tuple[MessageDescriptor, bytes]:
    """Return the message to put. For a staged copy this is the publication in it, unless `queue` is the staging queue.

    Refuses with 2428 if the subscription has ended: it was removed, it expired, or it was not durable and its handle closed.
    """
    header = None if queue.name == STAGING_QUEUE else _header(descriptor, body)
    if header is None or header.subscription_id == NO_ID:
        return descriptor, body
    subscription = state.subscriptions.by_identifier(header.subscription_id)
    expires_at = None if subscription is None else subscription.attributes.expires_at
    if subscription is None or (expires_at is not None and expires_at <= state.clock.wall()):
        raise Refusal(Reason.NO_SUBSCRIPTION, "The subscription of this publication has ended")
    now = Moment(
        wall_ms=int(state.clock.wall() * 1_000),
        monotonic_ms=int(state.clock.monotonic() * 1_000),
        epoch=state.clock.monotonic_epoch(),
    )
    copy, data = restored(descriptor, header, body, now)
    # A copy asks for no reports, like a copy without delay; it has a MsgId of its own.
    return replace(copy, report=int(Report.NONE), message_id=state.identifiers.identifier()), data


def _stage(
    state: QueueManagerState, unit: UnitOfWork, publication: Publication, subscriptions: list[Subscription], header: DelayHeader
) -> None:
    staging = state.local_queue(STAGING_QUEUE)
    copies = [_copy(state, publication, subscription, header) for subscription in subscriptions]
    if copies:
        _check_staging(state, staging, len(copies), len(copies[0][1]))
    unit.check_room(len(copies), state.attributes.max_uncommitted_messages)
    for descriptor, data in copies:
        place(state, unit, staging, descriptor, data, publication.now_s)


def _copy(
    state: QueueManagerState, publication: Publication, subscription: Subscription, header: DelayHeader
) -> tuple[MessageDescriptor, bytes]:
    """Return the staged message for one subscription: the copy, behind the header that the delay processor reads."""
    copy, body = describe_copy(state, publication, subscription)
    queue = state.queues.get(subscription.attributes.destination)
    if isinstance(queue, LocalQueue):
        if queue.attributes.definition_type == TEMPORARY_DYNAMIC:  # a temporary queue takes no persistent message (2048)
            copy = replace(copy, persistence=int(Persistence.NOT_PERSISTENT))
        if copy.priority == PRIORITY_AS_Q_DEF:
            copy = replace(copy, priority=queue.attributes.default_priority)
    # All copies have the MsgId of the publication, so a look-up finds them; the report options are for the delay processor.
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


def _check_staging(state: QueueManagerState, staging: LocalQueue, copies: int, body_bytes: int) -> None:
    attributes = staging.attributes
    if attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {STAGING_QUEUE}")
    try:
        check_room(state, staging, body_bytes)
    except Refusal as refusal:
        raise Refusal(refusal.reason, f"{STAGING_QUEUE}: {refusal.detail}") from None
    if len(staging.messages) + staging.uncommitted + copies > attributes.max_depth:
        raise Refusal(Reason.Q_FULL, f"{copies} subscriptions match; MAXDEPTH of {STAGING_QUEUE} is {attributes.max_depth}")


def _header(descriptor: MessageDescriptor, body: bytes) -> DelayHeader | None:
    if descriptor.format != delay_header.FORMAT or not isinstance(body, bytes):
        return None
    try:
        return delay_header.parse(body)
    except HeaderError:
        return None


def _sent_at(header: DelayHeader) -> Moment:
    return Moment(wall_ms=header.sent_wall_ms, monotonic_ms=header.sent_monotonic_ms, epoch=header.monotonic_epoch)
