"""Both ends of the administration of topics and subscriptions over a socket. This file knows no rule of MQ."""

from collections.abc import Mapping
from typing import Any, assert_never

from mqflow.embedded.administration.interface import SubscriptionStatus, TopicAdministration, TopicStatus
from mqflow.embedded.wire.protocol import requests_admin
from mqflow.embedded.wire.protocol.admin_authorities import Call
from mqflow.mqi.attributes.topic import TopicAttributes

__all__ = ("ServedTopics", "ask_topics", "order_topics")


class ServedTopics:
    """Offers `TopicAdministration` from another process."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def topics(self) -> tuple[TopicAttributes, ...]:
        """Return all topic objects, by name."""
        answer: tuple[TopicAttributes, ...] = self._call(requests_admin.ReadTopics(), "DISPLAY TOPIC")
        return answer

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object."""
        self._call(requests_admin.DefineTopic(attributes, replace), "DEFINE TOPIC", attributes.name, unknown=True)

    # Any, here and below: the table of the attributes gives each field's type.
    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change fields of a topic object."""
        self._call(requests_admin.AlterTopic(name, dict(changes)), "ALTER TOPIC", name, unknown=True)

    def delete_topic(self, name: str) -> None:
        """Delete a topic object."""
        self._call(requests_admin.DeleteTopic(name), "DELETE TOPIC", name, unknown=True)

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """Return the status of each topic."""
        answer: tuple[TopicStatus, ...] = self._call(requests_admin.ReadTopicStatuses(), "DISPLAY TPSTATUS")
        return answer

    def clear_retained(self, topic_string: str) -> None:
        """Delete the retained publication of this topic."""
        self._call(requests_admin.ClearRetained(topic_string), "CLEAR TOPICSTR", topic_string, unknown=True)

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """Return all subscriptions, by name."""
        answer: tuple[SubscriptionStatus, ...] = self._call(requests_admin.ReadSubscriptions(), "DISPLAY SUB")
        return answer

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription."""
        self._call(requests_admin.DefineSubscription(name, dict(values), replace), "DEFINE SUB", name, unknown=True)

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change a subscription."""
        self._call(requests_admin.AlterSubscription(name, dict(values)), "ALTER SUB", name, unknown=True)

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with its managed queue."""
        self._call(requests_admin.DeleteSubscription(name), "DELETE SUB", name, unknown=True)


def ask_topics(topics: TopicAdministration, request: requests_admin.TopicQuestion) -> object:
    """Return the answer to the question of another process."""
    match request:
        case requests_admin.ReadTopics():
            return topics.topics()
        case requests_admin.ReadTopicStatuses():
            return topics.topic_statuses()
        case requests_admin.ReadSubscriptions():
            return topics.subscriptions()
        case _:
            assert_never(request)


def order_topics(topics: TopicAdministration, request: requests_admin.TopicOrder) -> None:
    """Carry out the order of another process."""
    match request:
        case requests_admin.DefineTopic(attributes, replace):
            topics.define_topic(attributes, replace=replace)
        case requests_admin.AlterTopic(name, changes):
            topics.alter_topic(name, changes)
        case requests_admin.DeleteTopic(name):
            topics.delete_topic(name)
        case requests_admin.ClearRetained(topic_string):
            topics.clear_retained(topic_string)
        case requests_admin.DefineSubscription(name, values, replace):
            topics.define_subscription(name, values, replace=replace)
        case requests_admin.AlterSubscription(name, values):
            topics.alter_subscription(name, values)
        case requests_admin.DeleteSubscription(name):
            topics.delete_subscription(name)
        case _:
            assert_never(request)
