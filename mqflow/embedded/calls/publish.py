"""A put to a topic: places one copy for each matching subscription. A delivery rule of the topic can require all copies.

The put decides which subscriptions get a copy. The copies become available at the commit, like the message of any put. Callers
hold the queue manager's lock. Source: IBM, MQPUT to topics; DEFINE TOPIC PMSGDLV, NPMSGDLV, USEDLQ, WILDCARD; MQSD SubLevel,
PubPriority, SubCorrelId. UNCERTAIN: IBM's pages do not name all fields of the publisher's descriptor that a copy keeps.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.calls.enqueue import check_not_staged, check_room, place, resolved
from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.rules.publication_properties import MakeCopy, copy_maker
from mqflow.embedded.rules.put_plan import PutPlan, check_descriptor
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, Subscription, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.topic import DeliveryRule, TopicAttributes
from mqflow.mqi.descriptor import NO_ID, PRIORITY_AS_Q_DEF, MessageDescriptor
from mqflow.mqi.options import ApplicationType, Persistence, PutOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.mqi.selectors.fields import selectable
from mqflow.mqi.subscription import PRIORITY_AS_PUBLISHED, RetainedPublication
from mqflow.mqi.topic_strings import literal_levels
from mqflow.policy.poison.moved_message import to_dead_letter_queue
from mqflow.verbs import Put

__all__ = (
    "Publication",
    "describe_copy",
    "matching_subscriptions",
    "place_copies",
    "prepare",
    "publication_now",
    "publish",
    "selected_subscriptions",
)

_RETAIN: Final = int(PutOption.RETAIN)
_WARN: Final = int(PutOption.WARN_IF_NO_SUBS_MATCHED)
_NOT_OWN: Final = int(PutOption.NOT_OWN_SUBS)
_DISABLED: Final = 1
_YES: Final = 2
_NAME_CHARS: Final = 28
#: MQPMO.PubLevel of a put that sets no level.
_PUBLICATION_LEVEL: Final = 9


class Publication(Struct, frozen=True):
    """A publication: the topic with its attributes, and the message with all defaults resolved."""

    topic: str
    attributes: TopicAttributes
    descriptor: MessageDescriptor
    body: bytes
    now_s: float
    #: Makes the descriptor and the data of a copy, with the added properties.
    make_copy: MakeCopy


class _Copy(Struct, frozen=True):
    queue: LocalQueue
    descriptor: MessageDescriptor
    body: bytes


def publish(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, plan: PutPlan
) -> Pending[Put]:
    """Place a copy for each matching subscription, and return the output of MQPUT.

    Refuses with 2051 if the topic is disabled or the opened alias is inhibited for puts. Refuses with 2502 if the delivery rule
    of the topic cannot be kept. A refused put places no copy.
    """
    publication, reason = prepare(state, handle, descriptor, body, plan)
    subscriptions = matching_subscriptions(state, publication, handle if plan.for_topics & _NOT_OWN else None)
    unit = handle.connection.unit_of_work if plan.under_syncpoint else UnitOfWork()
    placed = place_copies(state, unit, publication, subscriptions, retain=bool(plan.for_topics & _RETAIN))
    handle.publication_count += 1
    handle.published_at = publication.now_s
    if not subscriptions and plan.for_topics & _WARN:
        reason = Reason.NO_SUBS_MATCHED
    put = Put(descriptor=publication.descriptor, resolved_queue="", resolved_queue_manager="", reason=reason)
    return Pending(put, unit if placed and not plan.under_syncpoint else None)


def prepare(
    state: QueueManagerState, handle: ObjectHandle, descriptor: MessageDescriptor, body: bytes, plan: PutPlan
) -> tuple[Publication, int]:
    """Return the publication with all defaults resolved, and the reason of a warning, or 0. Refuses an invalid publication."""
    topic = handle.topic or ""
    if state.quiescing and plan.fail_if_quiescing:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if plan.open_option and not handle.bits & plan.open_option:
        raise Refusal(plan.refused_with)
    if not isinstance(body, bytes):
        raise Refusal(Reason.BUFFER_ERROR, f"A body is bytes, not {type(body).__name__}")
    if handle.alias is not None and handle.alias.attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {handle.alias.attributes.name}")
    attributes = state.topics.effective(topic)
    if attributes.publish == _DISABLED:
        raise Refusal(Reason.PUT_INHIBITED, f"PUB(DISABLED) holds for topic {topic}")
    reason = check_descriptor(descriptor)
    if len(body) > state.attributes.max_message_bytes:
        raise Refusal(Reason.MSG_TOO_BIG_FOR_Q_MGR, f"{len(body)} bytes; MAXMSGL is {state.attributes.max_message_bytes}")
    return publication_now(state, topic, resolved(state, descriptor, attributes, plan, descriptor.expiry_tenths), body), reason


def publication_now(
    state: QueueManagerState, topic: str, descriptor: MessageDescriptor, body: bytes, *, retained: bool = False
) -> Publication:
    """Return the publication with the present attributes of the topic. `descriptor` has all defaults resolved."""
    make_copy = copy_maker(topic, descriptor, body, queue_manager_ccsid=state.attributes.ccsid, retained=retained)
    return Publication(topic, state.topics.effective(topic), descriptor, body, state.clock.wall(), make_copy)


def matching_subscriptions(
    state: QueueManagerState, publication: Publication, own: ObjectHandle | None = None
) -> list[Subscription]:
    """Return the subscriptions that get a copy. If `own` is given, leave out the subscriptions of its connection."""
    wanted = selected_subscriptions(
        state,
        publication,
        [
            subscription
            for subscription in state.subscriptions.of_topic(publication.topic)
            if not subscription.attributes.options & SubscribeOption.PUBLICATIONS_ON_REQUEST
            and not (own and any(holder.connection is own.connection for holder in subscription.holders))
        ],
    )
    levels = [found.attributes.level for found in wanted if found.attributes.level <= _PUBLICATION_LEVEL]
    return _one_of_each_group([found for found in wanted if levels and found.attributes.level == max(levels)])


def selected_subscriptions(
    state: QueueManagerState, publication: Publication, subscriptions: list[Subscription]
) -> list[Subscription]:
    """Return the subscriptions that have not expired, are not blocked, and select the publication."""
    lookup = selectable(publication.descriptor, publication.body, publication.topic)
    return [
        subscription
        for subscription in subscriptions
        if (subscription.attributes.expires_at is None or subscription.attributes.expires_at > publication.now_s)
        and not _blocked(state, subscription, publication.topic)
        and (subscription.selector is None or subscription.selector(lookup))
    ]


def place_copies(
    state: QueueManagerState,
    unit: UnitOfWork,
    publication: Publication,
    subscriptions: list[Subscription],
    *,
    retain: bool = False,
) -> int:
    """Put the copies into the unit of work and return the number of operations.

    Refuses with 2502 if the delivery rule cannot be kept, and with 2024 if the unit of work has no room for all copies. A
    refused call places no copy.
    """
    rule = _rule(publication)
    copies: list[_Copy] = []
    placed: dict[LocalQueue, int] = {}
    receivers: list[Subscription] = []
    for subscription in subscriptions:
        try:
            copy = _deliverable(state, publication, subscription, placed)
            copies.append(copy)
            placed[copy.queue] = placed.get(copy.queue, 0) + 1
            receivers.append(subscription)
        except Refusal as refusal:
            if rule is DeliveryRule.ALL or (rule is DeliveryRule.ALL_DURABLE and subscription.attributes.durable):
                raise _failed(subscription, refusal, rule) from None
    unit.check_room(len(copies) + retain, state.attributes.max_uncommitted_messages)
    for copy in copies:
        place(state, unit, copy.queue, copy.descriptor, copy.body, publication.now_s)
    for subscription in receivers:
        subscription.message_count += 1
        subscription.last_message_at = publication.now_s
    if retain:
        unit.retain(publication.topic, _retained(publication))
    return len(copies) + retain


def _deliverable(
    state: QueueManagerState, publication: Publication, subscription: Subscription, placed: Mapping[LocalQueue, int]
) -> _Copy:
    """Return a copy for the subscription's queue. If this queue refuses it and USEDLQ is YES, use the dead-letter queue."""
    descriptor, body = describe_copy(state, publication, subscription)
    name = subscription.attributes.destination
    try:
        return _copy_for(state, name, descriptor, body, len(publication.body), placed)
    except Refusal as refusal:
        dead_letter_queue = state.attributes.dead_letter_queue
        if publication.attributes.use_dead_letter_queue != _YES or not dead_letter_queue:
            raise
        descriptor, body = to_dead_letter_queue(
            descriptor,
            body,
            reason=refusal.reason,
            queue=name,
            queue_manager=state.name,
            application_name=state.name[:_NAME_CHARS],
            application_type=ApplicationType.QMGR,
            now=datetime.fromtimestamp(publication.now_s, UTC),
        )
        try:
            return _copy_for(state, dead_letter_queue, descriptor, body, len(body), placed)
        except Refusal:
            raise refusal from None


def _copy_for(
    state: QueueManagerState,
    name: str,
    descriptor: MessageDescriptor,
    body: bytes,
    data_bytes: int,
    placed: Mapping[LocalQueue, int],
) -> _Copy:
    """Return the copy for this queue. Refuses if the queue is inhibited or full, or if MAXMSGL is less than `data_bytes`.

    `data_bytes` is the length of the publisher's data without the added properties. `placed` has the number of earlier copies
    of this publication, by queue. They are not on their queues yet, but they count towards MAXDEPTH.
    """
    queue = state.local_queue(name)
    if queue.attributes.put_inhibited or state.queues[name].attributes.put_inhibited:
        raise Refusal(Reason.PUT_INHIBITED, f"PUT(DISABLED) on {name}")
    check_not_staged(queue, descriptor)
    check_room(state, queue, data_bytes)
    if queue.depth + placed.get(queue, 0) >= queue.attributes.max_depth:
        raise Refusal(Reason.Q_FULL, f"MAXDEPTH is {queue.attributes.max_depth}")
    if queue.attributes.definition_type == TEMPORARY_DYNAMIC:
        # A temporary queue refuses persistent messages (2048): without this line, it would get no persistent publication.
        descriptor = replace(descriptor, persistence=int(Persistence.NOT_PERSISTENT))
    if descriptor.priority == PRIORITY_AS_Q_DEF:
        descriptor = replace(descriptor, priority=queue.attributes.default_priority)
    return _Copy(queue, descriptor, body)


def describe_copy(
    state: QueueManagerState, publication: Publication, subscription: Subscription
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and data of a copy: a new MsgId, and the correlation identifier and context of the subscription."""
    wanted = subscription.attributes
    published, body = publication.make_copy(wanted.user_data)
    date, time = state.timestamps.of(publication.now_s)
    copy = replace(
        published,
        report=0,
        message_id=state.identifiers.identifier(),
        correlation_id=published.correlation_id if wanted.correlation_id == NO_ID else wanted.correlation_id,
        priority=published.priority if wanted.priority == PRIORITY_AS_PUBLISHED else wanted.priority,
        user_identifier=wanted.user,
        accounting_token=wanted.accounting_token,
        application_identity_data=wanted.application_identity_data,
        put_application_type=ApplicationType.BROKER,
        put_application_name=state.name[:_NAME_CHARS],
        put_date=date,
        put_time=time,
        application_origin_data="",
    )
    return copy, body


def _rule(publication: Publication) -> DeliveryRule:
    attributes = publication.attributes
    persistent = publication.descriptor.persistence == Persistence.PERSISTENT
    return DeliveryRule(attributes.persistent_delivery if persistent else attributes.nonpersistent_delivery)


def _failed(subscription: Subscription, refusal: Refusal, rule: DeliveryRule) -> Refusal:
    detail = f": {refusal.detail}" if refusal.detail else ""
    word = "PMSGDLV or NPMSGDLV"
    return Refusal(
        Reason.PUBLICATION_FAILURE,
        f"Subscription {subscription.attributes.name} cannot get it on {subscription.attributes.destination} "
        f"({reason_name(refusal.reason)}{detail}); {word} {rule.name} of the topic asks for delivery; no copy was delivered",
    )


def _retained(publication: Publication) -> RetainedPublication:
    tenths = publication.descriptor.expiry_tenths
    return RetainedPublication(
        topic_string=publication.topic,
        descriptor=publication.descriptor,
        body=publication.body,
        put_at=publication.now_s,
        expires_at=None if tenths < 0 else publication.now_s + tenths / 10,
    )


def _blocked(state: QueueManagerState, subscription: Subscription, topic: str) -> bool:
    """True if a topic object with WILDCARD(BLOCK) excludes the subscription, whose wildcard is above the object in the tree."""
    if not subscription.wild:
        return False
    literal = literal_levels(subscription.attributes.topic_string, subscription.scheme)
    return state.topics.blocks_wildcards(topic, len(literal))


def _one_of_each_group(subscriptions: list[Subscription]) -> list[Subscription]:
    """Return all ungrouped subscriptions, and one of each group (MQSO_GROUP_SUB, with the same queue and CorrelId)."""
    seen: set[tuple[str, bytes]] = set()
    chosen: list[Subscription] = []
    for subscription in subscriptions:
        attributes = subscription.attributes
        group = (attributes.destination, attributes.correlation_id)
        if attributes.options & SubscribeOption.GROUP_SUB:
            if group in seen:
                continue
            seen.add(group)
        chosen.append(subscription)
    return chosen
