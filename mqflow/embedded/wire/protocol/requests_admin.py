"""The requests of administration: definitions, topics, subscriptions and authorities, as records that can be sent.

`requests` has the requests of verbs, and the replies. This module knows no socket and no rule of MQ.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, Kind

__all__ = (
    "AdministrationOrder",
    "AdministrationQuestion",
    "Alter",
    "AlterQueueManager",
    "AlterSubscription",
    "AlterTopic",
    "AuthorityOrder",
    "AuthorityQuestion",
    "Clear",
    "ClearRetained",
    "Define",
    "DefineSubscription",
    "DefineTopic",
    "Delete",
    "DeleteAuthority",
    "DeleteSubscription",
    "DeleteTopic",
    "ReadAuthorities",
    "ReadHeld",
    "ReadQueue",
    "ReadQueueManager",
    "ReadQueueStatus",
    "ReadQueues",
    "ReadSubscriptions",
    "ReadTopicStatuses",
    "ReadTopics",
    "RefreshAuthorities",
    "SetAuthority",
    "TopicOrder",
    "TopicQuestion",
)


class ReadQueueManager(Struct, frozen=True, tag=True):
    """`Administration.queue_manager`."""


class ReadQueues(Struct, frozen=True, tag=True):
    """`Administration.queues`."""


class ReadQueue(Struct, frozen=True, tag=True):
    """`Administration.queue`."""

    name: str


class ReadQueueStatus(Struct, frozen=True, tag=True):
    """`Administration.queue_status`."""

    name: str


class Define(Struct, frozen=True, tag=True):
    """`Administration.define`."""

    attributes: QueueAttributes
    replace: bool


class Alter(Struct, frozen=True, tag=True):
    """`Administration.alter`."""

    name: str
    changes: Mapping[str, Any]  # Any: the table of the attributes gives each field's type
    force: bool


class Delete(Struct, frozen=True, tag=True):
    """`Administration.delete`."""

    name: str
    purge: bool
    keep_authorities: bool = False


class Clear(Struct, frozen=True, tag=True):
    """`Administration.clear`."""

    name: str


class AlterQueueManager(Struct, frozen=True, tag=True):
    """`Administration.alter_queue_manager`."""

    changes: Mapping[str, Any]  # Any: the table of the attributes gives each field's type


class ReadAuthorities(Struct, frozen=True, tag=True):
    """`AuthorityAdministration.records`."""


class ReadHeld(Struct, frozen=True, tag=True):
    """`AuthorityAdministration.held`."""

    kind: Kind
    name: str
    entity: str
    group: bool


class SetAuthority(Struct, frozen=True, tag=True):
    """`AuthorityAdministration.set`."""

    kind: Kind
    profile: str
    entity: str
    group: bool
    add: frozenset[Authority]
    remove: frozenset[Authority]


class DeleteAuthority(Struct, frozen=True, tag=True):
    """`AuthorityAdministration.delete`."""

    kind: Kind
    profile: str
    entity: str
    group: bool


class RefreshAuthorities(Struct, frozen=True, tag=True):
    """`AuthorityAdministration.refresh`."""


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
    changes: dict[str, Any]  # Any: as above


class DeleteTopic(Struct, frozen=True, tag=True):
    """`TopicAdministration.delete_topic`."""

    name: str


class ClearRetained(Struct, frozen=True, tag=True):
    """`TopicAdministration.clear_retained`."""

    topic_string: str


class DefineSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.define_subscription`."""

    name: str
    values: dict[str, Any]  # Any: as above
    replace: bool


class AlterSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.alter_subscription`."""

    name: str
    values: dict[str, Any]  # Any: as above


class DeleteSubscription(Struct, frozen=True, tag=True):
    """`TopicAdministration.delete_subscription`."""

    name: str


AdministrationQuestion = ReadQueueManager | ReadQueues | ReadQueue | ReadQueueStatus
AdministrationOrder = Define | Alter | Delete | Clear | AlterQueueManager
AuthorityQuestion = ReadAuthorities | ReadHeld
AuthorityOrder = SetAuthority | DeleteAuthority | RefreshAuthorities
TopicQuestion = ReadTopics | ReadTopicStatuses | ReadSubscriptions
TopicOrder = (
    DefineTopic | AlterTopic | DeleteTopic | ClearRetained | DefineSubscription | AlterSubscription | DeleteSubscription
)
