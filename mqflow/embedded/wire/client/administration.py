"""Offers the `Administration` of a served queue manager: each call is one round trip.

This module knows a line to send the calls on, but no rule of MQ.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mqflow.embedded.administration.interface import (
    ConnectionStatus,
    QueueManagerStatus,
    QueueStatistics,
    QueueStatus,
    SubscriptionStatus,
    TopicStatus,
)
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun, defined_object
from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.administration_calls import Administer
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord

__all__ = ("ServedAdministration",)


class _Part:
    """A part of the administration. `command` and `shown` name the command and its object in an error."""

    def __init__(self, line: Line) -> None:
        self._line = line

    # Any: the interface gives the type of the answer.
    def _ask(self, call: str, command: str, shown: str = "", /, **arguments: object) -> Any:
        return self._line.call(Administer(call, arguments), command, shown)

    def _order(self, call: str, command: str, shown: str = "", /, **arguments: object) -> None:
        self._line.call(Administer(call, arguments), command, shown, unknown=True)


class ServedAuthorities(_Part):
    """Offers `AuthorityAdministration` from another process."""

    def records(self) -> tuple[AuthorityRecord, ...]:
        """Return all authority records."""
        answer: tuple[AuthorityRecord, ...] = self._ask("authorities.records", "DISPLAY AUTHREC")
        return answer

    def held(self, kind: AuthorityKind, name: str, entity: str, *, group: bool) -> frozenset[Authority]:
        """Return the authorities of a user or a group on an object."""
        answer: frozenset[Authority] = self._ask(
            "authorities.held", "DISPLAY ENTAUTH", name, kind=kind, name=name, entity=entity, group=group
        )
        return answer

    def set(
        self,
        kind: AuthorityKind,
        profile: str,
        entity: str,
        *,
        group: bool,
        add: Iterable[Authority],
        remove: Iterable[Authority],
    ) -> None:
        """Add the authorities in `add` to a record, and then remove the authorities in `remove`."""
        changes = {"add": tuple(add), "remove": tuple(remove)}
        self._order(
            "authorities.set", "SET AUTHREC", profile, kind=kind, profile=profile, entity=entity, group=group, **changes
        )

    def delete(self, kind: AuthorityKind, profile: str, entity: str, *, group: bool) -> None:
        """Delete a record."""
        self._order("authorities.delete", "DELETE AUTHREC", profile, kind=kind, profile=profile, entity=entity, group=group)

    def refresh(self) -> None:
        """Forget the groups of users: the next check asks the operating system."""
        self._ask("authorities.refresh", "REFRESH SECURITY")


class ServedTopics(_Part):
    """Offers `TopicAdministration` from another process."""

    def topics(self) -> tuple[TopicAttributes, ...]:
        """Return all topic objects, by name."""
        answer: tuple[TopicAttributes, ...] = self._ask("publishing.topics", "DISPLAY TOPIC")
        return answer

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object."""
        self._order("publishing.define_topic", "DEFINE TOPIC", attributes.name, attributes=attributes, replace=replace)

    # Any, here and below: the table of the attributes gives each field's type.
    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change fields of a topic object."""
        self._order("publishing.alter_topic", "ALTER TOPIC", name, name=name, changes=dict(changes))

    def delete_topic(self, name: str) -> None:
        """Delete a topic object."""
        self._order("publishing.delete_topic", "DELETE TOPIC", name, name=name)

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """Return the status of each topic."""
        answer: tuple[TopicStatus, ...] = self._ask("publishing.topic_statuses", "DISPLAY TPSTATUS")
        return answer

    def clear_retained(self, topic_string: str) -> None:
        """Delete the retained publication of this topic."""
        self._order("publishing.clear_retained", "CLEAR TOPICSTR", topic_string, topic_string=topic_string)

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """Return all subscriptions, by name."""
        answer: tuple[SubscriptionStatus, ...] = self._ask("publishing.subscriptions", "DISPLAY SUB")
        return answer

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription."""
        self._order("publishing.define_subscription", "DEFINE SUB", name, name=name, values=dict(values), replace=replace)

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change a subscription."""
        self._order("publishing.alter_subscription", "ALTER SUB", name, name=name, values=dict(values))

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with its managed queue."""
        self._order("publishing.delete_subscription", "DELETE SUB", name, name=name)


class ServedObjects(_Part):
    """Offers `ObjectAdministration` from another process."""

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """Return all objects of a kind, by name."""
        answer: tuple[DefinedObject, ...] = self._ask("objects.all", f"DISPLAY {noun}", noun=noun)
        return tuple(defined_object(noun, found.values) for found in answer)

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object."""
        self._order("objects.define", "DEFINE", attributes.name, attributes=attributes, replace=replace)

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object."""
        self._order("objects.alter", f"ALTER {noun}", name, noun=noun, name=name, changes=changes, client=client)

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object."""
        self._order("objects.delete", f"DELETE {noun}", name, noun=noun, name=name, client=client)

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Return the connections, in order of identifier."""
        answer: tuple[ConnectionStatus, ...] = self._ask("objects.connections", "DISPLAY CONN")
        return answer

    def stop_connection(self, identifier: str) -> None:
        """End a connection and back out its unit of work."""
        self._order("objects.stop_connection", "STOP CONN", identifier, identifier=identifier)


class ServedAdministration(_Part):
    """Offers the `Administration` of a queue manager in another process."""

    @property
    def publishing(self) -> ServedTopics:
        """Topics and subscriptions."""
        return ServedTopics(self._line)

    @property
    def authorities(self) -> ServedAuthorities:
        """The authorities of users and groups."""
        return ServedAuthorities(self._line)

    @property
    def objects(self) -> ServedObjects:
        """The objects other than queues, and connections."""
        return ServedObjects(self._line)

    @property
    def queue_manager(self) -> QueueManagerAttributes:
        """The queue manager's attributes."""
        answer: QueueManagerAttributes = self._ask("queue_manager", "DISPLAY")
        return answer

    def queues(self) -> tuple[QueueAttributes, ...]:
        """All queues of every kind, in order of name."""
        answer: tuple[QueueAttributes, ...] = self._ask("queues", "DISPLAY")
        return answer

    def queue(self, name: str) -> QueueAttributes | None:
        """The queue of that name, or None."""
        answer: QueueAttributes | None = self._ask("queue", "DISPLAY", name, name=name)
        return answer

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        """Define a queue."""
        self._order("define", "DEFINE", attributes.name, attributes=attributes, replace=replace)

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        """Change fields of a queue."""
        self._order("alter", "ALTER", name, name=name, changes=changes, force=force)

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        """Delete a queue."""
        self._order("delete", "DELETE", name, name=name, purge=purge, keep_authorities=keep_authorities)

    def clear(self, name: str) -> None:
        """Remove every message from a local queue."""
        self._order("clear", "CLEAR", name, name=name)

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        """Change fields of the queue manager."""
        self._order("alter_queue_manager", "ALTER QMGR", changes=changes)

    def queue_status(self, name: str) -> QueueStatus:
        """Return the status of a local queue."""
        answer: QueueStatus = self._ask("queue_status", "DISPLAY QSTATUS", name, name=name)
        return answer

    def reset_queue_statistics(self, name: str) -> QueueStatistics:
        """Return what a local queue counted, and count from 0 again."""
        answer: QueueStatistics = self._ask("reset_queue_statistics", "RESET QSTATS", name, name=name)
        return answer

    @property
    def status(self) -> QueueManagerStatus:
        """The status of the queue manager."""
        answer: QueueManagerStatus = self._ask("status", "DISPLAY QMSTATUS")
        return answer

    def report_command(self, text: str, *, shows: bool) -> None:
        """Put the command event of a command of MQSC, if CMDEV asks for it."""
        self._order("report_command", "MQSC", text=text, shows=shows)

    def order(self, request: requests.HostOrder) -> None:
        """Ask the serving process to end or to back up the queue manager.

        Raises 2298 if the queue manager belongs to a running application.
        """
        self._line.call(request, type(request).__name__, unknown=True)

    def close(self) -> None:
        """End the connection."""
        self._line.close()
