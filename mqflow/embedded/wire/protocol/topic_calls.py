"""The administration of topics and subscriptions as records that can be sent. Part of the requests in `calls`."""

from typing import Any

from msgspec import Struct

from mqflow.mqi.attributes.topic import TopicAttributes

__all__ = (
    "AlterSubscription",
    "AlterTopic",
    "ClearRetained",
    "DefineSubscription",
    "DefineTopic",
    "DeleteSubscription",
    "DeleteTopic",
    "ReadSubscriptions",
    "ReadTopicStatuses",
    "ReadTopics",
    "TopicOrder",
    "TopicQuestion",
)


class ReadTopics(Struct, frozen=True, tag=True):
    """`TopicAdministration.topics`."""


class ReadTopicStatuses(Struct, frozen=True, tag=True):
    """`TopicAdministration.topic_statuses`."""


class ReadSubscriptions(Struct, frozen=True, tag=True):
    """`TopicAdministration.subscriptions`."""


class DefineTopic(Struct, frozen=True, tag=True):
    """`TopicAdministration.define_topic`."""

    attributes: TopicAttributes
    replace: bool


class AlterTopic(Struct, frozen=True, tag=True):
    """`TopicAdministration.alter_topic`."""

    name: str
    changes: dict[str, Any]


class DeleteTopic(Struct, frozen=True, tag=True):
    """`TopicAdministration.delete_topic`."""

    name: str


class ClearRetained(Struct, frozen=True, tag=True):
    """`TopicAdministration.clear_retained`."""

    topic_string: str


class DefineSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.define_subscription`."""

    name: str
    values: dict[str, Any]
    replace: bool


class AlterSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.alter_subscription`."""

    name: str
    values: dict[str, Any]


class DeleteSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.delete_subscription`."""

    name: str


TopicQuestion = ReadTopics | ReadTopicStatuses | ReadSubscriptions
TopicOrder = (
    DefineTopic | AlterTopic | DeleteTopic | ClearRetained | DefineSubscription | AlterSubscription | DeleteSubscription
)
