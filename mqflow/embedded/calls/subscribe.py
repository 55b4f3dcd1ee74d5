"""MQSUB, MQSUBRQ and the end of subscriptions: made, resumed, altered, held by a handle, let go, removed.

Called under the machine's lock; what must survive is waited for without it. Source: IBM, MQSUB, MQCLOSE and MQSD; facts 8.13.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mqflow.embedded.calls.object_records import define_object, delete_object
from mqflow.embedded.calls.open import (
    TEMPORARY_DYNAMIC,
    Wanted,
    close_handle,
    drop_managed,
    managed_queue,
    open_object,
    topic_string_of,
)
from mqflow.embedded.calls.publish import place_copies, publication_on, wanting
from mqflow.embedded.calls.retained import retained_for
from mqflow.embedded.calls.selection import check_selection
from mqflow.embedded.calls.settle import back_out, undone_where_refused
from mqflow.embedded.calls.topic_authority import check_topic_authority
from mqflow.embedded.rules import subscribe_options
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import LocalQueue
from mqflow.embedded.state.handle import EmbeddedHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.subscription_index import EmbeddedSubscriptionHandle, Subscription
from mqflow.embedded.state.unit_of_work import UnitOfWork
from mqflow.mqi.authorities import Authority, Kind, Need
from mqflow.mqi.option_names import option_names
from mqflow.mqi.options import CloseOption, OpenOption, SubscribeOption, SubscriptionRequestOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionAttributes, SubscriptionDescriptor
from mqflow.verbs import ObjectDescriptor, Subscribed

if TYPE_CHECKING:
    from mqflow.embedded.connection import EmbeddedConnection

__all__ = (
    "close_subscription",
    "enter",
    "expires_at",
    "new_subscription",
    "remove_subscription",
    "request_retained",
    "subscribe",
)

Wait = Callable[[], None]
_DISABLED: Final = 1
_NO: Final = 2
_RETAINED_LEVEL: Final = 1
_MANAGED_INPUT: Final = OpenOption.INPUT_AS_Q_DEF | OpenOption.BROWSE | OpenOption.INQUIRE | OpenOption.SAVE_ALL_CONTEXT
_RESUMABLE: Final = SubscribeOption.RESUME | SubscribeOption.ALTER


def subscribe(
    state: QueueManagerState, connection: "EmbeddedConnection", wanted: SubscriptionDescriptor, given: object
) -> tuple[Subscribed, Wait, UnitOfWork | None]:
    """Make, resume or alter; return what MQSUB returns, what waits until it is durable, and what is retained, to be committed.

    `given` is the handle of the queue of a subscription that is not managed.
    """
    subscribe_options.check_descriptor(wanted)
    if state.quiescing and wanted.options & SubscribeOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if len(connection.handles) + len(connection.subscriptions) >= state.attributes.max_handles:
        raise Refusal(Reason.HANDLE_NOT_AVAILABLE)
    _end_expired(state)
    found = state.subscriptions.get(wanted.name) if wanted.name else None
    if found is None:
        if not wanted.options & SubscribeOption.CREATE:
            raise Refusal(Reason.NO_SUBSCRIPTION, f"There is no subscription {wanted.name}")
        return _create(state, connection, wanted, given)
    if not wanted.options & _RESUMABLE:
        raise Refusal(Reason.SUB_ALREADY_EXISTS, f"It is a subscription to {found.attributes.topic_string}")
    return _resume(state, connection, wanted, given, found)


def close_subscription(state: QueueManagerState, handle: EmbeddedSubscriptionHandle, options: CloseOption) -> Wait | None:
    """Let go of the subscription, and end it where it is not durable or REMOVE_SUB says so; return what waits for that."""
    if options & ~(CloseOption.KEEP_SUB | CloseOption.REMOVE_SUB):
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, f"{option_names(options)} is for queues")
    subscription = handle.subscription
    if options == CloseOption.KEEP_SUB | CloseOption.REMOVE_SUB:
        raise Refusal(Reason.OPTIONS_ERROR, "KEEP_SUB and REMOVE_SUB exclude each other")
    if options & CloseOption.KEEP_SUB and not subscription.attributes.durable:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "Only a durable subscription can be kept")
    handle.open = False
    if subscription.holder is handle:
        subscription.holder = None
    if subscription.attributes.durable and not options & CloseOption.REMOVE_SUB:
        return None
    return remove_subscription(state, subscription, handle.queue)


def remove_subscription(
    state: QueueManagerState, subscription: Subscription, held: EmbeddedHandle | None = None
) -> Wait | None:
    """End the subscription; its managed queue goes with it, or with the handle `held` that is open on it.

    The queue of a durable one goes when its end is durable, which whoever is to wait for is returned; where that is refused,
    the subscription is there again.
    """
    attributes = subscription.attributes
    state.subscriptions.discard(subscription)
    if attributes.managed and held is not None and held.open:
        held.takes_queue_along = True
    if not attributes.durable or attributes.name not in state.objects["subscription"]:
        _drop_queue(state, subscription)
        return None

    def undo() -> None:
        state.subscriptions.add(subscription)
        if held is not None:
            held.takes_queue_along = False

    wait = undone_where_refused(state, delete_object(state, attributes.name, SubscriptionAttributes), undo)

    def wait_and_drop() -> None:
        wait()
        with state.lock:
            _drop_queue(state, subscription)

    return wait_and_drop


def _drop_queue(state: QueueManagerState, subscription: Subscription) -> None:
    """Delete the managed queue of a subscription that is over, unless it goes with a handle that is open on it."""
    attributes = subscription.attributes
    queue = state.queues.get(attributes.destination)
    if attributes.managed and isinstance(queue, LocalQueue) and not any(each.takes_queue_along for each in queue.handles):
        drop_managed(state, attributes.destination)


def request_retained(
    state: QueueManagerState, handle: EmbeddedSubscriptionHandle, options: SubscriptionRequestOption
) -> tuple[int, UnitOfWork]:
    """Place what is retained for the subscription into a unit of work; return how many. Refuses with 2437 where nothing is."""
    if options & ~SubscriptionRequestOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.OPTIONS_ERROR, f"0x{int(options):x} is no MQSRO option")
    if state.quiescing and options & SubscriptionRequestOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    unit = UnitOfWork()
    count = _place_retained(state, unit, handle.subscription)
    if not count:
        raise Refusal(Reason.NO_RETAINED_MSG, f"Nothing is retained for {handle.subscription.attributes.topic_string}")
    return count, unit


def new_subscription(
    state: QueueManagerState, attributes: SubscriptionAttributes, *, new_only: bool = False
) -> tuple[Subscription, UnitOfWork]:
    """Return a subscription whose queue is there, entered nowhere yet, and what is retained for it, to be committed.

    Refuses with 2526 where what is retained cannot be delivered and has to be.
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
    retained = UnitOfWork()
    if not new_only and not attributes.options & SubscribeOption.PUBLICATIONS_ON_REQUEST:
        try:
            _place_retained(state, retained, subscription)
        except Refusal as refusal:
            back_out(state, retained)
            raise Refusal(Reason.RETAINED_NOT_DELIVERED, refusal.detail) from refusal
    return subscription, retained


def enter(state: QueueManagerState, subscription: Subscription) -> Wait:
    """Make publications come to the subscription; the function returned waits until a durable one is on disk, or is undone."""
    attributes = subscription.attributes
    state.subscriptions.add(subscription)
    if not attributes.durable:
        return _nothing
    wait = define_object(state, attributes.name, attributes)
    return undone_where_refused(state, wait, partial(_undo, state, subscription))


def _create(
    state: QueueManagerState, connection: "EmbeddedConnection", wanted: SubscriptionDescriptor, given: object
) -> tuple[Subscribed, Wait, UnitOfWork | None]:
    topic_string = topic_string_of(state, wanted.object_name, wanted.object_string)
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
        expiry_tenths=wanted.expiry_tenths,
    )
    _check_group(state, attributes, given)
    if wanted.options & SubscribeOption.MANAGED:
        model = rules.durable_model if durable else rules.nondurable_model
        name = managed_queue(state, model, durable=durable, user=connection.user)
        queue = open_object(state, connection, Wanted(ObjectDescriptor(name), _MANAGED_INPUT, trusted=True))
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
    wait = enter(state, subscription)
    return _subscribed(_held(connection, subscription, queue), queue, wanted), wait, retained


def _resume(
    state: QueueManagerState,
    connection: "EmbeddedConnection",
    wanted: SubscriptionDescriptor,
    given: object,
    found: Subscription,
) -> tuple[Subscribed, Wait, UnitOfWork | None]:
    if found.holder is not None:
        raise Refusal(Reason.SUBSCRIPTION_IN_USE, f"{found.holder.connection.application_name} holds it")
    user = _user_of(state, connection, wanted)
    subscribe_options.check_identity(found.attributes, user)
    authority = Authority.SUB if wanted.options & SubscribeOption.ALTER else Authority.RESUME
    check_topic_authority(state, user, found.attributes.topic_string, authority)
    wait: Wait = _nothing
    altered: SubscriptionAttributes | None = None
    if wanted.options & SubscribeOption.ALTER:
        topic_string = topic_string_of(state, wanted.object_name, wanted.object_string)
        subscribe_options.check_alteration(found.attributes, wanted, topic_string)
        altered = _altered(state, found.attributes, wanted)
    queue = _resumed_queue(state, connection, found, given)
    handle, before = _held(connection, found, queue), found.attributes
    if altered is not None:
        found.attributes = replace(altered, destination=queue.resolved_queue)
        if found.attributes.durable:
            wait = define_object(state, found.attributes.name, found.attributes)

    def undo() -> None:
        found.attributes = before
        _let_go(state, handle)
        if given is None and queue.open:
            _close(state, queue)

    return _subscribed(handle, queue, wanted), undone_where_refused(state, wait, undo), None


def _undo(state: QueueManagerState, subscription: Subscription) -> None:
    """Take back what the store refused: the subscription, its handles and its queue."""
    state.subscriptions.discard(subscription)
    if subscription.holder is not None:
        _let_go(state, subscription.holder)
    if subscription.attributes.managed:
        drop_managed(state, subscription.attributes.destination)


def _let_go(state: QueueManagerState, handle: EmbeddedSubscriptionHandle) -> None:
    """Close handles that the application never got: nobody holds the subscription."""
    handle.open = False
    handle.subscription.holder = None
    handle.connection.subscriptions.discard(handle)
    if handle.queue is not None:
        _close(state, handle.queue)


def _close(state: QueueManagerState, queue: EmbeddedHandle) -> None:
    close_handle(state, queue, CloseOption.NONE)
    queue.connection.handles.discard(queue)


def _altered(state: QueueManagerState, found: SubscriptionAttributes, wanted: SubscriptionDescriptor) -> SubscriptionAttributes:
    date, time = state.now_as_text()
    chosen = wanted.options & SubscribeOption.SET_CORREL_ID
    with_context = wanted.options & SubscribeOption.SET_IDENTITY_CONTEXT
    return replace(
        found,
        options=subscribe_options.kept_options(int(wanted.options)),
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


def _given(connection: "EmbeddedConnection", given: object, *, durable: bool) -> EmbeddedHandle:
    if not isinstance(given, EmbeddedHandle) or given.connection is not connection or not given.open or given.queue is None:
        raise Refusal(Reason.HOBJ_ERROR, "Without MANAGED the handle of an open queue is needed")
    if durable and given.queue.attributes.definition_type == TEMPORARY_DYNAMIC:
        detail = f"{given.resolved_queue} is a temporary queue, which does not outlive the application"
        raise Refusal(Reason.DURABILITY_NOT_ALLOWED, detail)
    return given


def _resumed_queue(
    state: QueueManagerState, connection: "EmbeddedConnection", found: Subscription, given: object
) -> EmbeddedHandle:
    if given is not None and not found.attributes.managed:
        return _given(connection, given, durable=found.attributes.durable)
    managed = found.attributes.managed
    return open_object(
        state, connection, Wanted(ObjectDescriptor(found.attributes.destination), _MANAGED_INPUT, trusted=managed)
    )


def _held(connection: "EmbeddedConnection", subscription: Subscription, queue: EmbeddedHandle) -> EmbeddedSubscriptionHandle:
    handle = EmbeddedSubscriptionHandle(connection, subscription)
    handle.queue = queue if subscription.attributes.managed else None
    subscription.holder = handle
    connection.subscriptions.add(handle)
    return handle


def _subscribed(handle: EmbeddedSubscriptionHandle, queue: EmbeddedHandle, wanted: SubscriptionDescriptor) -> Subscribed:
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
    """Place what is retained for the subscription; what cannot be delivered is not."""
    if subscription.attributes.level > _RETAINED_LEVEL:  # they are published again at level 1
        return 0
    count = 0
    for retained in retained_for(state, subscription):
        publication = publication_on(state, retained.topic_string, retained.descriptor, retained.body)
        count += place_copies(state, unit, publication, wanting(state, publication, [subscription]))
    return count


def _user_of(state: QueueManagerState, connection: "EmbeddedConnection", wanted: SubscriptionDescriptor) -> str:
    """Return whose the subscription is: the alternate user's where one is used, which is refused (2035) without ALTUSR.

    Source: IBM, MQSD AlternateUserId: its authority is asked, and it is recorded as the subscription's.
    """
    if not wanted.options & SubscribeOption.ALTERNATE_USER_AUTHORITY:
        return connection.user
    state.authorities.check(connection.user, (Need(Kind.QMGR, "", Authority.ALTUSR, own=True),))
    return wanted.alternate_user


def _check_authorities(state: QueueManagerState, user: str, topic_string: str, given: object) -> None:
    """Refuse with 2035 who may not subscribe there, or not put to the queue by the name that the publications are to go to."""
    check_topic_authority(state, user, topic_string, Authority.SUB)
    if isinstance(given, EmbeddedHandle):
        state.authorities.check(user, (Need(Kind.QUEUE, given.name, Authority.PUT),))


def _check_group(state: QueueManagerState, wanted: SubscriptionAttributes, given: object) -> None:
    """Refuse with 2514 a second subscription to the same topic in a group."""
    if not wanted.options & SubscribeOption.GROUP_SUB:
        return
    destination = given.resolved_queue if isinstance(given, EmbeddedHandle) else ""
    for subscription in state.subscriptions:
        other = subscription.attributes
        if (
            other.options & SubscribeOption.GROUP_SUB
            and (other.topic_string, other.correlation_id) == (wanted.topic_string, wanted.correlation_id)
            and other.destination == destination
        ):
            raise Refusal(Reason.DUPLICATE_GROUP_SUB, f"{other.name} has this topic in the group")


def _end_expired(state: QueueManagerState) -> None:
    now = state.clock.wall()
    for subscription in state.subscriptions:
        expires_at = subscription.attributes.expires_at
        if expires_at is not None and expires_at <= now and subscription.holder is None:
            # Nobody waits: where the store refuses, it is ended again after a restart.
            remove_subscription(state, subscription)
            _drop_queue(state, subscription)


def expires_at(state: QueueManagerState, tenths: int) -> float | None:
    """Return when a subscription made or altered now is over; None for never."""
    return None if tenths < 0 else state.clock.wall() + tenths / 10


def _nothing() -> None:
    """Nothing to wait for."""
