"""MQSUB, MQSUBRQ, and the end of subscriptions.

Callers hold the queue manager's lock. This file and `administration/topics.py` write subscriptions.
Source: IBM, MQSUB, MQCLOSE and MQSD.
"""

from functools import partial
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from mqflow.embedded.calls import open as opening
from mqflow.embedded.calls.message_selection import check_selection
from mqflow.embedded.calls.object_records import define_object, delete_object
from mqflow.embedded.calls.pending_answer import Pending, begin
from mqflow.embedded.calls.publish import place_copies, publication_now, selected_subscriptions
from mqflow.embedded.calls.retained import retained_for
from mqflow.embedded.calls.settle import back_out
from mqflow.embedded.catalogue.system_objects import RESOURCE_TOPICS
from mqflow.embedded.rules import subscribe_options
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import (
    ConnectionState,
    LocalQueue,
    ObjectHandle,
    Subscription,
    SubscriptionHandle,
    UnitOfWork,
)
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.authorities import Authority, AuthorityKind, Need
from mqflow.mqi.options import CloseOption, OpenOption, SubscribeOption, SubscriptionRequestOption, option_names
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionAttributes, SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor, Subscribed

__all__ = (
    "close_subscription",
    "end_expired",
    "expires_at",
    "new_subscription",
    "register",
    "remove_subscription",
    "request_retained",
    "subscribe",
)

_DISABLED: Final = 1
_NO: Final = 2
_RETAINED_LEVEL: Final = 1
_MANAGED_INPUT: Final = OpenOption.INPUT_AS_Q_DEF | OpenOption.BROWSE | OpenOption.INQUIRE | OpenOption.SAVE_ALL_CONTEXT
_REQUEST_OPTIONS: Final = sum(SubscriptionRequestOption)
_RESUMABLE: Final = SubscribeOption.RESUME | SubscribeOption.ALTER


def subscribe(
    state: QueueManagerState, connection: ConnectionState, wanted: SubscriptionDescriptor, given: object
) -> Pending[Subscribed]:
    """Create, resume or alter a subscription. Return the output of MQSUB.

    If the subscription's queue is not managed, `given` is the handle of that queue.
    """
    subscribe_options.check_descriptor(wanted)
    if state.quiescing and wanted.options & SubscribeOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if len(connection.handles) + len(connection.subscriptions) >= state.attributes.max_handles:
        raise Refusal(Reason.HANDLE_NOT_AVAILABLE)
    end_expired(state)
    found = state.subscriptions.get(wanted.name) if wanted.name else None
    if found is None:
        if not wanted.options & SubscribeOption.CREATE:
            raise Refusal(Reason.NO_SUBSCRIPTION, f"There is no subscription {wanted.name}")
        return _create(state, connection, wanted, given)
    if not wanted.options & _RESUMABLE:
        raise Refusal(Reason.SUB_ALREADY_EXISTS, f"It is a subscription to {found.attributes.topic_string}")
    return _resume(state, connection, wanted, given, found)


def close_subscription(state: QueueManagerState, handle: SubscriptionHandle, options: CloseOption) -> Pending[None]:
    """Close the handle of a subscription, and end the subscription if no other handle uses it.

    A durable subscription ends only with REMOVE_SUB.
    """
    if options & ~(CloseOption.KEEP_SUB | CloseOption.REMOVE_SUB):
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, f"{option_names(options)} is for queues")
    subscription = handle.subscription
    if options == CloseOption.KEEP_SUB | CloseOption.REMOVE_SUB:
        raise Refusal(Reason.OPTIONS_ERROR, "KEEP_SUB and REMOVE_SUB exclude each other")
    if options & CloseOption.KEEP_SUB and not subscription.attributes.durable:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "Only a durable subscription can be kept")
    others = [holder for holder in subscription.holders if holder is not handle]
    if options & CloseOption.REMOVE_SUB and others:
        raise Refusal(Reason.SUBSCRIPTION_IN_USE, f"Application {others[0].connection.application_name} uses it")
    handle.open = False
    subscription.holders = others
    if others or (subscription.attributes.durable and not options & CloseOption.REMOVE_SUB):
        return Pending(None)
    return remove_subscription(state, subscription, handle.queue)


def remove_subscription(
    state: QueueManagerState, subscription: Subscription, held: ObjectHandle | None = None
) -> Pending[None]:
    """End the subscription and delete its managed queue. If the handle `held` has the queue open, its close deletes the queue.

    The queue of a durable subscription is deleted only after the end of the subscription is durable. If the store refuses, the
    subscription is restored.
    """
    attributes = subscription.attributes
    state.subscriptions.discard(subscription)
    if attributes.managed and held is not None and held.open:
        held.takes_queue_along = True
    if not attributes.durable or attributes.name not in state.objects["subscription"]:
        _drop_queue(state, subscription)
        return Pending(None)

    def undo() -> None:
        state.subscriptions.add(subscription)
        if held is not None:
            held.takes_queue_along = False

    pending = delete_object(state, attributes.name, SubscriptionAttributes).undone_by(undo)
    return structs.replace(pending, then=partial(_drop_queue, state, subscription))


def _drop_queue(state: QueueManagerState, subscription: Subscription) -> None:
    """Delete the managed queue of an ended subscription, unless the close of an open handle deletes it."""
    attributes = subscription.attributes
    queue = state.queues.get(attributes.destination)
    if attributes.managed and isinstance(queue, LocalQueue) and not any(each.takes_queue_along for each in queue.handles):
        opening.drop_managed(state, attributes.destination)


def request_retained(state: QueueManagerState, handle: SubscriptionHandle, options: SubscriptionRequestOption) -> Pending[int]:
    """Place the subscription's retained publications, and return their number. Refuses with 2437 if nothing is retained."""
    if unknown := int(options) & ~_REQUEST_OPTIONS:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{unknown:x} is not an MQSRO option")
    if state.quiescing and options & SubscriptionRequestOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    unit = UnitOfWork()
    count = _place_retained(state, unit, handle.subscription)
    if not count:
        raise Refusal(Reason.NO_RETAINED_MSG, f"Nothing is retained for {handle.subscription.attributes.topic_string}")
    return Pending(count, unit)


def new_subscription(
    state: QueueManagerState, attributes: SubscriptionAttributes, *, new_only: bool = False
) -> tuple[Subscription, UnitOfWork]:
    """Return a subscription that is not registered yet, and a unit of work with the retained publications for it.

    The destination queue must exist already. Refuses with 2526 if the retained publications cannot be delivered.
    """
    date, time = state.now_as_text()
    subscription = Subscription(
        replace(
            attributes,
            creation_date=date,
            creation_time=time,
            alteration_date=date,
            alteration_time=time,
            expires_at=expires_at(state, attributes.expiry_tenths),
        )
    )
    if attributes.topic_string.startswith(RESOURCE_TOPICS) and state.when_monitored is not None:
        state.when_monitored(subscription)
    retained = UnitOfWork()
    if not new_only and not attributes.options & SubscribeOption.PUBLICATIONS_ON_REQUEST:
        try:
            _place_retained(state, retained, subscription)
        except Refusal as refusal:
            raise Refusal(Reason.RETAINED_NOT_DELIVERED, refusal.detail) from refusal
    return subscription, retained


def register(state: QueueManagerState, subscription: Subscription) -> Pending[None]:
    """Register the subscription, which then gets publications."""
    attributes = subscription.attributes
    state.subscriptions.add(subscription)
    if not attributes.durable:
        return Pending(None)
    return define_object(state, attributes.name, attributes).undone_by(partial(_undo, state, subscription))


def _create(
    state: QueueManagerState, connection: ConnectionState, wanted: SubscriptionDescriptor, given: object
) -> Pending[Subscribed]:
    topic_string = opening.topic_string_of(state, wanted.object_name, wanted.object_string)
    durable = bool(wanted.options & SubscribeOption.DURABLE)
    rules = state.topics.effective(topic_string)
    if rules.subscribe == _DISABLED:
        raise Refusal(Reason.SUB_INHIBITED, f"SUB(DISABLED) holds for topic {topic_string}")
    if durable and rules.durable_subscriptions == _NO:
        raise Refusal(Reason.DURABILITY_NOT_ALLOWED, f"DURSUB(NO) holds for topic {topic_string}")
    user = _user_of(state, connection, wanted)
    _check_authorities(state, user, topic_string, given)
    check_selection(wanted.selection)
    identifier = state.identifiers.identifier()
    chosen = bool(wanted.options & SubscribeOption.SET_CORREL_ID)
    with_context = wanted.options & SubscribeOption.SET_IDENTITY_CONTEXT
    attributes = SubscriptionAttributes(
        name=wanted.name or identifier.hex().upper(),
        identifier=identifier,
        topic_string=topic_string,
        topic_object=wanted.object_name,
        options=subscribe_options.kept_options(int(wanted.options)),
        correlation_id=wanted.correlation_id if chosen else state.identifiers.identifier(),
        user=user,
        user_data=wanted.user_data,
        selection=wanted.selection,
        priority=wanted.priority,
        accounting_token=wanted.accounting_token if with_context else bytes(32),
        application_identity_data=wanted.application_identity_data if with_context else "",
        level=wanted.level,
        shared=wanted.shared,
        expiry_tenths=wanted.expiry_tenths,
    )
    _check_group(state, attributes, given)
    if wanted.options & SubscribeOption.MANAGED:
        model = rules.durable_model if durable else rules.nondurable_model
        name = opening.managed_queue(state, model, durable=durable, user=connection.user)
        queue = opening.open_object(state, connection, opening.Wanted(ObjectDescriptor(name), _MANAGED_INPUT, trusted=True))
    else:
        queue = _given(connection, given, durable=durable)
    attributes = replace(attributes, destination=queue.resolved_queue)
    try:
        subscription, retained = new_subscription(
            state, attributes, new_only=bool(wanted.options & SubscribeOption.NEW_PUBLICATIONS_ONLY)
        )
    except Refusal:
        if attributes.managed:
            queue.takes_queue_along = True
            _close(state, queue)
        raise
    entered = register(state, subscription)
    handle = _held(connection, subscription, queue)
    pending = entered.with_value(_subscribed(handle, queue, wanted))
    return structs.replace(pending, own_unit=retained, revoke=partial(_take_back, state, handle))


def _resume(
    state: QueueManagerState, connection: ConnectionState, wanted: SubscriptionDescriptor, given: object, found: Subscription
) -> Pending[Subscribed]:
    if found.holders and not (found.attributes.shared and wanted.shared):
        raise Refusal(Reason.SUBSCRIPTION_IN_USE, f"Application {found.holders[0].connection.application_name} uses it")
    user = _user_of(state, connection, wanted)
    subscribe_options.check_identity(found.attributes, user)
    authority = Authority.SUB if wanted.options & SubscribeOption.ALTER else Authority.RESUME
    opening.check_topic_authority(state, user, found.attributes.topic_string, authority)
    pending = Pending(None)
    altered: SubscriptionAttributes | None = None
    if wanted.options & SubscribeOption.ALTER:
        topic_string = opening.topic_string_of(state, wanted.object_name, wanted.object_string)
        subscribe_options.check_alteration(found.attributes, wanted, topic_string)
        altered = _altered(state, found.attributes, wanted)
        if not altered.managed:
            _check_given(state, user, given)
    queue = _resumed_queue(state, connection, found, given)
    handle, before = _held(connection, found, queue), found.attributes
    found.resumed_at = state.clock.wall()
    if altered is not None:
        found.attributes = replace(altered, destination=queue.resolved_queue)
        if found.attributes.durable:
            pending = define_object(state, found.attributes.name, found.attributes)

    def undo() -> None:
        found.attributes = before
        _close_unreturned(state, handle)
        if given is None and queue.open:
            _close(state, queue)

    return pending.undone_by(undo).with_value(_subscribed(handle, queue, wanted))


def _undo(state: QueueManagerState, subscription: Subscription) -> None:
    """Remove a subscription that the store has refused, with its handles and its managed queue."""
    state.subscriptions.discard(subscription)
    for holder in tuple(subscription.holders):
        _close_unreturned(state, holder)
    if subscription.attributes.managed:
        opening.drop_managed(state, subscription.attributes.destination)


def _take_back(state: QueueManagerState, handle: SubscriptionHandle) -> Pending[None]:
    """End a new subscription after the commit of its retained publications has failed."""
    if not handle.open:
        return Pending(None)
    pending = close_subscription(state, handle, CloseOption.REMOVE_SUB)
    handle.connection.subscriptions.discard(handle)
    if handle.queue is None:
        return pending
    close_queue = partial(_close, state, handle.queue)
    if pending.changes is None:
        close_queue()
        return pending
    return structs.replace(pending.undone_by(close_queue), then=close_queue)  # the close also deletes the managed queue


def _close_unreturned(state: QueueManagerState, handle: SubscriptionHandle) -> None:
    """Close the handles of a subscription that the application has not received yet, unless its connection has ended."""
    if not handle.open:
        return
    handle.open = False
    handle.subscription.holders.remove(handle)
    handle.connection.subscriptions.discard(handle)
    if handle.queue is not None:
        _close(state, handle.queue)


def _close(state: QueueManagerState, queue: ObjectHandle) -> None:
    opening.close_handle(state, queue, CloseOption.NONE)
    queue.connection.handles.discard(queue)


def _altered(state: QueueManagerState, found: SubscriptionAttributes, wanted: SubscriptionDescriptor) -> SubscriptionAttributes:
    date, time = state.now_as_text()
    chosen = wanted.options & SubscribeOption.SET_CORREL_ID
    with_context = wanted.options & SubscribeOption.SET_IDENTITY_CONTEXT
    return replace(
        found,
        options=subscribe_options.kept_options(int(wanted.options)),
        shared=wanted.shared,
        user_data=wanted.user_data,
        priority=wanted.priority,
        correlation_id=wanted.correlation_id if chosen else found.correlation_id,
        accounting_token=wanted.accounting_token if with_context else found.accounting_token,
        application_identity_data=wanted.application_identity_data if with_context else found.application_identity_data,
        expiry_tenths=wanted.expiry_tenths,
        expires_at=expires_at(state, wanted.expiry_tenths),
        alteration_date=date,
        alteration_time=time,
    )


def _given(connection: ConnectionState, given: object, *, durable: bool) -> ObjectHandle:
    if not isinstance(given, ObjectHandle) or given.connection is not connection or not given.open or given.queue is None:
        raise Refusal(Reason.HOBJ_ERROR, "Without MANAGED the handle of an open queue is needed")
    if durable and given.queue.attributes.definition_type == opening.TEMPORARY_DYNAMIC:
        detail = f"{given.resolved_queue} is a temporary queue, which does not outlive the application"
        raise Refusal(Reason.DURABILITY_NOT_ALLOWED, detail)
    return given


def _resumed_queue(state: QueueManagerState, connection: ConnectionState, found: Subscription, given: object) -> ObjectHandle:
    if given is not None and not found.attributes.managed:
        return _given(connection, given, durable=found.attributes.durable)
    managed = found.attributes.managed
    return opening.open_object(
        state, connection, opening.Wanted(ObjectDescriptor(found.attributes.destination), _MANAGED_INPUT, trusted=managed)
    )


def _held(connection: ConnectionState, subscription: Subscription, queue: ObjectHandle) -> SubscriptionHandle:
    handle = SubscriptionHandle(connection, subscription)
    handle.queue = queue if subscription.attributes.managed else None
    subscription.holders.append(handle)
    connection.subscriptions.add(handle)
    return handle


def _subscribed(handle: SubscriptionHandle, queue: ObjectHandle, wanted: SubscriptionDescriptor) -> Subscribed:
    attributes = handle.subscription.attributes
    of_the_call = int(wanted.options) & subscribe_options.OF_THE_CALL
    return Subscribed(
        handle=handle,
        queue=queue,
        descriptor=replace(
            wanted,
            options=SubscribeOption(attributes.options | of_the_call),
            user_data=attributes.user_data,
            correlation_id=attributes.correlation_id,
            expiry_tenths=attributes.expiry_tenths,
            selection=attributes.selection,
            priority=attributes.priority,
            accounting_token=attributes.accounting_token,
            application_identity_data=attributes.application_identity_data,
            level=attributes.level,
            topic_string=attributes.topic_string,
        ),
    )


def _place_retained(state: QueueManagerState, unit: UnitOfWork, subscription: Subscription) -> int:
    """Place the retained publications that the delivery rules allow for the subscription. Return their number.

    `unit` is a unit of work for this call alone. A refused call places nothing.
    """
    if subscription.attributes.level > _RETAINED_LEVEL:  # retained publications are published again at level 1
        return 0
    count = 0
    for retained in retained_for(state, subscription):
        publication = publication_now(state, retained.topic_string, retained.descriptor, retained.body, retained=True)
        try:
            count += place_copies(state, unit, publication, selected_subscriptions(state, publication, [subscription]))
        except Refusal:
            back_out(state, unit)
            raise
    return count


def _user_of(state: QueueManagerState, connection: ConnectionState, wanted: SubscriptionDescriptor) -> str:
    """Return the user of the subscription: the connection's user or, if the options ask for it, the alternate user.

    Refuses the alternate user with 2035 if the connection's user has no ALTUSR authority.
    Source: IBM, MQSD AlternateUserId: the authority of the returned user is checked, and the subscription records this user.
    """
    if not wanted.options & SubscribeOption.ALTERNATE_USER_AUTHORITY:
        return connection.user
    state.authorities.check(connection.user, (Need(AuthorityKind.QMGR, "", Authority.ALTUSR, own=True),))
    return wanted.alternate_user


def _check_authorities(state: QueueManagerState, user: str, topic_string: str, given: object) -> None:
    """Refuse with 2035 a user without SUB authority on the topic, or without PUT authority on the opened name of `given`."""
    opening.check_topic_authority(state, user, topic_string, Authority.SUB)
    _check_given(state, user, given)


def _check_given(state: QueueManagerState, user: str, given: object) -> None:
    """Refuse with 2035 a user without PUT authority on the opened name of `given`, because publications will go there."""
    if isinstance(given, ObjectHandle):
        state.authorities.check(user, (Need(AuthorityKind.QUEUE, given.name, Authority.PUT),))


def _check_group(state: QueueManagerState, wanted: SubscriptionAttributes, given: object) -> None:
    """Refuse with 2514 a second subscription of a group to the same topic."""
    if not wanted.options & SubscribeOption.GROUP_SUB:
        return
    destination = given.resolved_queue if isinstance(given, ObjectHandle) else ""
    for subscription in state.subscriptions:
        other = subscription.attributes
        if (
            other.options & SubscribeOption.GROUP_SUB
            and (other.topic_string, other.correlation_id) == (wanted.topic_string, wanted.correlation_id)
            and other.destination == destination
        ):
            raise Refusal(Reason.DUPLICATE_GROUP_SUB, f"{other.name} has this topic in the group")


def end_expired(state: QueueManagerState) -> None:
    """End the expired subscriptions that no program uses, with their managed queues. Does nothing after a stop."""
    if state.stopped:
        return
    now = state.clock.wall()
    for subscription in state.subscriptions:
        expires_at = subscription.attributes.expires_at
        if expires_at is not None and expires_at <= now and not subscription.holders:
            # No call waits for the store: if the store refuses, the subscription is found expired again after a restart.
            begin(state, remove_subscription(state, subscription))
            _drop_queue(state, subscription)


def expires_at(state: QueueManagerState, tenths: int) -> float | None:
    """Return the moment when a subscription with this expiry, created or altered now, expires; None for never."""
    return None if tenths < 0 else state.clock.wall() + tenths / 10
