"""The administration of topic objects, subscriptions and retained publications."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import structs
from msgspec.structs import asdict, replace

from mqflow.embedded.administration.interface import PublisherStatus, SubscriptionStatus, TopicStatus
from mqflow.embedded.calls.authority_records import delete_with_authorities
from mqflow.embedded.calls.message_selection import check_selection
from mqflow.embedded.calls.object_records import define_object, records
from mqflow.embedded.calls.open import drop_managed, managed_queue, topic_string_of
from mqflow.embedded.calls.pending_answer import Pending, carry_out
from mqflow.embedded.calls.queue_attributes import with_changes
from mqflow.embedded.calls.subscribe import end_expired, expires_at, new_subscription, register, remove_subscription
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ObjectHandle, QueueDefinition, Subscription, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.attributes.subscription import ADMINISTRATIVE, with_values
from mqflow.mqi.attributes.topic import BASE_TOPIC, TopicAttributes
from mqflow.mqi.authorities import AuthorityKind
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import OpenOption, QueueType, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import RetainedPublication, SubscriptionAttributes
from mqflow.mqi.topic_strings import is_topic_string

__all__ = ("TopicDefinitions",)

# VARUSER(ANY) and WSCHEMA(TOPIC) are the defaults of DEFINE SUB (q085760).
_ADMINISTRATIVE: Final = int(
    SubscribeOption.DURABLE | SubscribeOption.SET_CORREL_ID | SubscribeOption.WILDCARD_TOPIC | SubscribeOption.ANY_USERID
)
_DISABLED: Final = 1
_NO: Final = 2
# In this file a mapping has `Any` values: the table of attributes gives each value its type.
_NOT_ALTERABLE: Final = ("topic_string", "topic_object", "destination_class", "selection", "level", "wildcard_schema")


class TopicDefinitions:
    """`TopicAdministration` of one queue manager. `user` is the owner of the subscriptions that DEFINE SUB creates."""

    def __init__(self, state: QueueManagerState, user: str) -> None:
        self._state = state
        self._user = user

    def topics(self) -> tuple[TopicAttributes, ...]:
        """Return all topic objects, sorted by name."""
        with self._state.lock:
            return tuple(found for _, found in sorted(records(self._state, TopicAttributes).items()))

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object. Raises 2425 if the topic string is taken and, without `replace`, 2100 if the name is taken."""
        self._carry_out("DEFINE TOPIC", attributes.name, lambda: self._define_topic(attributes, replacing=replace))

    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change attributes of a topic object; the topic string cannot change. Raises 2085 if the object does not exist."""
        self._carry_out("ALTER TOPIC", name, lambda: self._alter_topic(name, changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic object, but not the subscriptions to its topic. Raises 2085 if the object does not exist."""
        self._carry_out("DELETE TOPIC", name, lambda: self._delete_topic(name))

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """Return the status of each topic with an object, a subscription, a publisher or a retained publication."""
        state = self._state
        with state.lock:
            end_expired(state)
            counts: dict[str, int] = {}
            for subscription in state.subscriptions:
                topic = subscription.attributes.topic_string
                counts[topic] = counts.get(topic, 0) + 1
            retained = records(state, RetainedPublication)
            objects = {found.topic_string for found in records(state, TopicAttributes).values()}
            publishers: dict[str, list[PublisherStatus]] = {}
            for handle in (handle for connection in state.connections for handle in connection.handles):
                if handle.topic is not None and handle.bits & OpenOption.OUTPUT:
                    publishers.setdefault(handle.topic, []).append(_publisher(state, handle))
            return tuple(
                TopicStatus(
                    topic_string=topic,
                    attributes=state.topics.effective(topic),
                    subscription_count=counts.get(topic, 0),
                    retained=topic in retained,
                    publishers=tuple(sorted(publishers.get(topic, ()), key=lambda each: each.connection)),
                )
                for topic in sorted({*counts, *retained, *objects, *publishers})
                if topic
            )

    def clear_retained(self, topic_string: str) -> None:
        """Remove the retained publication of a topic. Raises 2085 if the topic has none."""
        self._carry_out("CLEAR TOPICSTR", topic_string, lambda: self._clear(topic_string))

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """Return all subscriptions, sorted by name. Expired subscriptions that no program uses end first."""
        with self._state.lock:
            end_expired(self._state)
            found = [_subscription_status(self._state, subscription) for subscription in self._state.subscriptions]
        return tuple(sorted(found, key=lambda status: status.attributes.name))

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription. Without `replace`, raises 2432 if the name is taken."""
        with self._state.lock:
            end_expired(self._state)
            known = self._state.subscriptions.get(name) is not None
        if known and replace:
            self.alter_subscription(name, values)
        else:
            self._carry_out("DEFINE SUB", name, lambda: self._define_subscription(name, values))

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change attributes of a subscription. Raises 2428 if the subscription does not exist."""
        self._carry_out("ALTER SUB", name, lambda: self._alter_subscription(self._subscription(name), values))

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription and its managed queue."""
        self._carry_out("DELETE SUB", name, lambda: self._delete_subscription(self._subscription(name)))

    def _carry_out(self, command: str, name: str, step: Callable[[], Pending[None]]) -> None:
        def changing() -> Pending[None]:
            pending = step()
            self._state.topics.changed()  # another command must not define the same topic string meanwhile
            return pending

        try:
            carry_out(self._state, command, name, changing)
        finally:
            with self._state.lock:  # needed also after an undone change
                self._state.topics.changed()

    def _define_topic(self, attributes: TopicAttributes, *, replacing: bool) -> Pending[None]:
        state, name = self._state, attributes.name
        known = records(state, TopicAttributes).get(name)
        if known is not None and not replacing:
            raise Refusal(Reason.OBJECT_ALREADY_EXISTS, f"It is the topic {known.topic_string}")
        if known is not None and attributes.topic_string != known.topic_string:
            raise Refusal(Reason.TOPIC_NOT_ALTERABLE, f"It is the topic {known.topic_string}: delete it first")
        if not is_object_name(name):
            raise Refusal(Reason.OBJECT_NAME_ERROR, f"{name!r} is not a name of an object")
        if known is None and not is_topic_string(attributes.topic_string):
            raise Refusal(Reason.TOPIC_STRING_ERROR, "TOPICSTR is needed: 1 to 10240 characters")
        other = state.topics.at(attributes.topic_string)
        if other is not None and other.name != name:
            raise Refusal(Reason.TOPIC_STRING_ERROR, f"Topic object {other.name} has the topic string {other.topic_string}")
        return self._keep(with_changes(attributes, asdict(attributes)))

    def _alter_topic(self, name: str, changes: Mapping[str, Any]) -> Pending[None]:
        known = self._topic(name)
        if changes.get("topic_string", known.topic_string) != known.topic_string:
            raise Refusal(Reason.TOPIC_NOT_ALTERABLE, f"It is the topic {known.topic_string}: delete it and define it again")
        return self._keep(with_changes(known, changes))

    def _delete_topic(self, name: str) -> Pending[None]:
        self._topic(name)
        if name == BASE_TOPIC:
            raise Refusal(Reason.OBJECT_IN_USE, "It is the base of the topic tree")
        return delete_with_authorities(self._state, name, TopicAttributes, name, AuthorityKind.TOPIC)

    def _topic(self, name: str) -> TopicAttributes:
        known = records(self._state, TopicAttributes).get(name)
        if known is None:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
        return known

    def _keep(self, attributes: TopicAttributes) -> Pending[None]:
        date, time = self._state.now_as_text()
        return define_object(self._state, attributes.name, replace(attributes, alteration_date=date, alteration_time=time))

    def _clear(self, topic_string: str) -> Pending[None]:
        if topic_string not in records(self._state, RetainedPublication):
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, "The topic has no retained publication")
        unit = UnitOfWork()
        unit.retain(topic_string, None)
        return Pending(None, unit)

    def _subscription(self, name: str) -> Subscription:
        end_expired(self._state)
        found = self._state.subscriptions.get(name)
        if found is None:
            raise Refusal(Reason.NO_SUBSCRIPTION)
        return found

    def _define_subscription(self, name: str, values: Mapping[str, Any]) -> Pending[None]:
        state = self._state
        if not name:
            raise Refusal(Reason.SUB_NAME_ERROR)
        if state.subscriptions.get(name) is not None:
            raise Refusal(Reason.SUB_ALREADY_EXISTS)
        plain = SubscriptionAttributes(
            name=name,
            identifier=state.identifiers.identifier(),
            topic_string="",
            kind=ADMINISTRATIVE,
            options=_ADMINISTRATIVE,
            user=self._user,
        )
        wanted = _with(state, plain, values)
        topic = topic_string_of(state, wanted.topic_object, wanted.topic_string)
        wanted = replace(wanted, topic_string=topic)
        rules = state.topics.effective(topic)
        if rules.subscribe == _DISABLED:
            raise Refusal(Reason.SUB_INHIBITED, f"SUB(DISABLED) holds for topic {topic}")
        if rules.durable_subscriptions == _NO:
            raise Refusal(Reason.DURABILITY_NOT_ALLOWED, f"DURSUB(NO) holds for topic {topic}, and DEFINE SUB is durable")
        check_selection(wanted.selection)
        if wanted.managed:
            model = rules.durable_model
            wanted = replace(wanted, destination=managed_queue(state, model, durable=True, user=wanted.user))
        else:
            _check_destination(state, wanted.destination)
        try:
            subscription, retained = new_subscription(state, wanted)
        except Refusal:
            if wanted.managed:
                drop_managed(state, wanted.destination)
            raise
        pending = register(state, subscription)
        return structs.replace(pending, own_unit=retained, revoke=partial(remove_subscription, state, subscription))

    def _alter_subscription(self, subscription: Subscription, values: Mapping[str, Any]) -> Pending[None]:
        state, before = self._state, subscription.attributes
        values = _without_known_topic(state, before, values)
        altered = _with(state, before, values)
        for field in _NOT_ALTERABLE:
            if field in values and _with(state, before, {field: values[field]}) != before:
                raise Refusal(Reason.TOPIC_NOT_ALTERABLE, f"{field.replace('_', ' ')} of a subscription cannot be altered")
        if altered.destination != before.destination:
            # DELETE SUB deletes the queue of a managed subscription.
            if before.managed:
                raise Refusal(
                    Reason.TOPIC_NOT_ALTERABLE, "It is DESTCLAS(MANAGED): delete it with its messages, and define it with DEST"
                )
            _check_destination(state, altered.destination)
        date, time = state.now_as_text()
        if "expiry_tenths" in values:  # the expiry interval starts again
            altered = replace(altered, expires_at=expires_at(state, altered.expiry_tenths))
        subscription.attributes = replace(altered, alteration_date=date, alteration_time=time)
        if not before.durable:
            return Pending(None)

        def undo() -> None:
            subscription.attributes = before

        return define_object(state, before.name, subscription.attributes).undone_by(undo)

    def _delete_subscription(self, subscription: Subscription) -> Pending[None]:
        if subscription.holders:
            raise Refusal(
                Reason.SUBSCRIPTION_IN_USE, f"Application {subscription.holders[0].connection.application_name} uses it"
            )
        return remove_subscription(self._state, subscription)


def _without_known_topic(
    state: QueueManagerState, known: SubscriptionAttributes, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the values, without the topic if the subscription has this topic already."""
    topic = values.get("topic_object", ""), values.get("topic_string", "")
    if not any(topic) or topic_string_of(state, *topic) != known.topic_string:
        return values
    return {field: value for field, value in values.items() if field not in {"topic_object", "topic_string"}}


def _check_destination(state: QueueManagerState, name: str) -> None:
    """Refuse with 2085 an empty name or an unknown queue, and with 2057 a queue that takes no publications.

    Source: IBM q020910: the queue "must be defined before the definition of the subscription". ALTER SUB is checked too.
    """
    if not name:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, "DEST is needed, unless DESTCLAS(MANAGED)")
    found = state.queues.get(name)
    if found is None:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"There is no queue {name} for DEST: define it before the subscription")
    if isinstance(found, QueueDefinition) and found.attributes.kind is not QueueType.ALIAS:
        raise Refusal(
            Reason.Q_TYPE_ERROR, f"DEST {name} is a {found.attributes.kind.name.lower()} queue; a local queue is needed"
        )


def _with(state: QueueManagerState, attributes: SubscriptionAttributes, values: Mapping[str, Any]) -> SubscriptionAttributes:
    """Return the record with these values. Refuses with 2086 a DESTQMGR other than this queue manager."""
    elsewhere = values.get("destination_queue_manager", "")
    if elsewhere not in {"", state.name}:
        raise Refusal(Reason.UNKNOWN_OBJECT_Q_MGR, f"DESTQMGR is {elsewhere}, and this queue manager is {state.name}")
    try:
        return with_values(attributes, values)
    except (ValueError, TypeError) as error:
        raise Refusal(Reason.ITEM_VALUE_ERROR, str(error)) from error


def _publisher(state: QueueManagerState, handle: ObjectHandle) -> PublisherStatus:
    date, time = state.as_text(handle.published_at)
    return PublisherStatus(
        connection=handle.connection.identifier, publication_count=handle.publication_count, last_date=date, last_time=time
    )


def _subscription_status(state: QueueManagerState, subscription: Subscription) -> SubscriptionStatus:
    last_date, last_time = state.as_text(subscription.last_message_at)
    resumed_date, resumed_time = state.as_text(subscription.resumed_at)
    return SubscriptionStatus(
        attributes=subscription.attributes,
        connection=subscription.holders[0].connection.identifier if subscription.holders else "",
        message_count=subscription.message_count,
        last_message_date=last_date,
        last_message_time=last_time,
        resumed_date=resumed_date,
        resumed_time=resumed_time,
    )
