"""The interface of administration for MQSC and PCF: definitions and status, without a connection or a unit of work.

This file is the contract between the queue manager and the commands of `mqsc` and `pcf`: records and protocols, but no rules.
Every refusal is an `MQIError` with MQ's reason code.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from mqflow.embedded.catalogue.kinds import DefinedObject, Noun
from mqflow.embedded.rules.channel_authentication import ChannelRule, RuleType
from mqflow.embedded.rules.channel_instances import ChannelStatus, ListenerStatus
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord
from mqflow.mqi.subscription import SubscriptionAttributes

__all__ = (
    "Administration",
    "AuthorityAdministration",
    "ChannelAdministration",
    "ChannelRule",
    "ChannelStatus",
    "ConnectionHandle",
    "ConnectionStatus",
    "HandleStatus",
    "ListenerStatus",
    "ObjectAdministration",
    "PublisherStatus",
    "QueueManagerStatus",
    "QueueStatistics",
    "QueueStatus",
    "RuleType",
    "SubscriptionStatus",
    "TopicAdministration",
    "TopicStatus",
)


class HandleStatus(Struct, frozen=True, kw_only=True):
    """One open handle of a queue (DISPLAY QSTATUS TYPE(HANDLE))."""

    application: str
    user: str
    #: The identifier of the connection: 16 hexadecimal digits.
    connection: str
    #: CONNAME: the address of a client program; empty for other connections.
    address: str = ""
    #: INPUT: NO, SHARED or EXCL.
    input_mode: str
    browse: bool
    inquire: bool
    output: bool
    set: bool


class QueueStatus(Struct, frozen=True, kw_only=True):
    """The status of a local queue (DISPLAY QSTATUS TYPE(QUEUE))."""

    name: str
    depth: int
    open_input_count: int
    open_output_count: int
    #: The number of puts and gets that open units of work have not committed.
    uncommitted: int
    #: MSGAGE; None if the queue is empty.
    oldest_message_age_s: int | None
    last_put_date: str = ""
    last_put_time: str = ""
    last_get_date: str = ""
    last_get_time: str = ""
    handles: tuple[HandleStatus, ...] = ()


class QueueStatistics(Struct, frozen=True, kw_only=True):
    """The counts of a local queue since its last reset (RESET QSTATS)."""

    name: str
    #: How many messages were put (`enqueued`) and got (`dequeued`). A backout lowers neither count.
    enqueued: int
    dequeued: int
    #: The highest CURDEPTH.
    high_depth: int
    since_reset_s: int


class QueueManagerStatus(Struct, frozen=True, kw_only=True):
    """The status of the queue manager (DISPLAY QMSTATUS)."""

    name: str
    #: MQQMSTA_*: 2 running, 3 quiescing.
    status: int
    #: The number of connections that DISPLAY CONN shows.
    connection_count: int
    started_date: str
    started_time: str


class ConnectionHandle(Struct, frozen=True, kw_only=True):
    """One open object of a connection (DISPLAY CONN TYPE(HANDLE))."""

    name: str
    #: MQOT_*.
    object_type: int
    #: MQOO_* bits.
    options: int


class ConnectionStatus(Struct, frozen=True, kw_only=True):
    """One connection (DISPLAY CONN)."""

    #: 16 hexadecimal digits.
    identifier: str
    application: str
    user: str
    #: CHANNEL and CONNAME: the channel and the address of a client program; empty for other connections.
    channel: str = ""
    address: str = ""
    #: PID: the process of the program; for a program on another machine, the process of the queue manager.
    process: int = 0
    #: APPLTYPE: true for a connection of the queue manager itself, false for a connection of a user.
    system: bool
    #: The number of puts and gets that are not committed.
    operations: int
    handles: tuple[ConnectionHandle, ...] = ()


class SubscriptionStatus(Struct, frozen=True, kw_only=True):
    """A subscription and the connection that uses it (DISPLAY SBSTATUS)."""

    attributes: SubscriptionAttributes
    #: 16 hexadecimal digits; empty if no application uses the subscription.
    connection: str = ""
    #: How many messages the subscription got since its creation, or since the last start of the queue manager.
    message_count: int = 0
    last_message_date: str = ""
    last_message_time: str = ""
    #: The date and time of the last MQSUB that resumed the subscription.
    resumed_date: str = ""
    resumed_time: str = ""


class PublisherStatus(Struct, frozen=True, kw_only=True):
    """An application that has the topic open to publish (DISPLAY TPSTATUS TYPE(PUB))."""

    #: 16 hexadecimal digits.
    connection: str
    publication_count: int = 0
    last_date: str = ""
    last_time: str = ""


class TopicStatus(Struct, frozen=True, kw_only=True):
    """The status of a topic: its attributes with all ASPARENT values resolved (DISPLAY TPSTATUS)."""

    topic_string: str
    attributes: TopicAttributes
    #: The number of subscriptions to exactly this topic string.
    subscription_count: int
    retained: bool
    publishers: tuple[PublisherStatus, ...] = ()

    @property
    def publisher_count(self) -> int:
        """PUBCOUNT: the number of handles that are open to publish on this topic."""
        return len(self.publishers)


class AuthorityAdministration(Protocol):
    """The authority records. The first record turns the authority checks on."""

    def records(self) -> tuple[AuthorityRecord, ...]:
        """Return all authority records, sorted by kind of object, profile and entity."""
        ...

    def held(self, kind: AuthorityKind, name: str, entity: str, *, group: bool) -> frozenset[Authority]:
        """Return the authorities on an object: those of a user and its groups or, with `group`, those of one group."""
        ...

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
        """Add the authorities `add` to a record, then remove the authorities `remove`. Create the record if none exists."""

    def delete(self, kind: AuthorityKind, profile: str, entity: str, *, group: bool) -> None:
        """Delete a record. Raises 2085 if there is no such record."""

    def refresh(self) -> None:
        """Forget the groups of all users: the next authority check of a user asks the operating system for its groups."""


class TopicAdministration(Protocol):
    """Topic objects, subscriptions and retained publications."""

    # A mapping has `Any` values: the table of attributes gives each value its type.

    def topics(self) -> tuple[TopicAttributes, ...]:
        """Return all topic objects, sorted by name."""
        ...

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object. Raises 2425 if the topic string is taken and, without `replace`, 2100 if the name is taken."""

    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change attributes of a topic object; the topic string cannot change. Raises 2085 if the object does not exist."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic object, but not the subscriptions to its topic. Raises 2085 if the object does not exist."""

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """Return the status of each topic with an object, a subscription, a publisher or a retained publication."""
        ...

    def clear_retained(self, topic_string: str) -> None:
        """Remove the retained publication of a topic (CLEAR TOPICSTR). Raises 2085 if the topic has none."""

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """Return all subscriptions, sorted by name."""
        ...

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription. Without `replace`, raises 2432 if the name is taken."""

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change attributes of a subscription. Raises 2428 if the subscription does not exist."""

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription and its managed queue.

        Raises 2428 if the subscription does not exist, and 2429 while an application uses the subscription.
        """


class ObjectAdministration(Protocol):
    """Objects that the queue manager only stores and shows. `noun` is a key of `DEFINED_KINDS`."""

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """Return all objects of a kind, sorted by name."""
        ...

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object. If the name is taken, raises 2100 without `replace`, and 2043 with `replace` and another type."""

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change attributes of an object. Raises 2085 if the object does not exist. Set `client` for a CLNTCONN channel."""

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object. Raises 2085 if the object does not exist."""

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Return the connections, including that of the command server, sorted by identifier."""
        ...

    def stop_connection(self, identifier: str) -> None:
        """End a connection and back out its unit of work. Raises 3174 if there is no such connection.

        The next call of the application on this connection raises 2009.
        """


class ChannelAdministration(Protocol):
    """The running channels and listeners of client programs, and the channel authentication records."""

    def rules(self) -> tuple[ChannelRule, ...]:
        """Return all channel authentication records, sorted by channel profile."""
        ...

    def deciding_rule(self, channel: str, address: str, user: str) -> ChannelRule | None:
        """Return the record that accepts or refuses a client program, or None.

        Raises 4032 if the channel does not exist, and 2319 if the address is not an IP address.
        """
        ...

    def set_rule(self, rule: ChannelRule, *, replace: bool = False) -> None:
        """Set a record. Without `replace`, raises 3337 if the record exists already.

        A list (BLOCKUSER, BLOCKADDR) is added to the existing record's list. With `replace`, it replaces the existing list.
        """

    def remove_rule(self, rule: ChannelRule) -> None:
        """Remove the record with the profile, type and partner of `rule`. Raises 3338 if no record has them.

        If `rule` has a list (BLOCKUSER, BLOCKADDR), remove only the entries in this list, and the record if no entry is left.
        """

    def remove_rules(self, profile: str, type: RuleType) -> None:  # noqa: A002 - MQ's name of the field is TYPE
        """Remove all records of a profile and a type. Raises 3338 if no record has them."""

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the running channels, and the stopped channels that have no connection, sorted by name."""
        ...

    def start(self, name: str) -> None:
        """Let client programs use a server-connection channel again. Raises 4032 if the channel does not exist."""

    def stop(self, name: str, *, address: str = "", stays_stopped: bool = True) -> None:
        """End the instances of a channel. With `stays_stopped`, refuse new instances until `start`.

        With `address`, only the instances of this client end. Raises 4032 if the channel does not exist, and 4064 if no
        instance ends and `stays_stopped` is false.
        """

    def listeners(self) -> tuple[ListenerStatus, ...]:
        """Return the running listeners, sorted by name."""
        ...

    def start_listener(self, name: str) -> None:
        """Start a stopped listener. Raises 3249 if the listener runs already, and 2298 if this process has no such listener."""

    def stop_listener(self, name: str) -> None:
        """Make a listener refuse new connections. Raises 3234 if no such listener runs."""


class Administration(Protocol):
    """Definitions and status of one queue manager.

    A change takes effect in memory first, and is durable when the call returns. If the store refuses it, it is undone.
    """

    @property
    def authorities(self) -> AuthorityAdministration:
        """The authority records."""
        ...

    @property
    def channels(self) -> ChannelAdministration:
        """The running channels and listeners, and the channel authentication records."""
        ...

    @property
    def publishing(self) -> TopicAdministration:
        """Topics and subscriptions."""
        ...

    @property
    def queue_manager(self) -> QueueManagerAttributes:
        """The queue manager's attributes."""
        ...

    def queues(self) -> tuple[QueueAttributes, ...]:
        """Return the queues of every kind, sorted by name, with their present depth and open counts."""
        ...

    def queue(self, name: str) -> QueueAttributes | None:
        """Return the queue of this name, or None."""
        ...

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        """Define a queue. If the name is taken, raises 2100 without `replace`, and 2043 with `replace` and another kind."""

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        """Change attributes of a queue. Without `force`, raises 2042 if the change affects open handles."""

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        """Delete a queue. Raises 2042 while the queue is open, and 2055 while it has uncommitted puts or gets.

        Without `purge`, also raises 2055 while the queue holds a message.
        Also deletes the authority records whose profile is exactly this name, unless `keep_authorities`.
        """

    def clear(self, name: str) -> None:
        """Delete every message of a local queue. Raises 2042 while the queue is open or has uncommitted puts or gets."""

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        """Change attributes of the queue manager. Raises 2319 for an invalid value, also for an unknown CCSID."""

    def queue_status(self, name: str) -> QueueStatus:
        """Return the status of a local queue. Raises 2085 if the queue does not exist."""
        ...

    def reset_queue_statistics(self, name: str) -> QueueStatistics:
        """Return the counts of a local queue, and set them to 0. Raises 2085 if the queue does not exist."""
        ...

    @property
    def status(self) -> QueueManagerStatus:
        """The status of the queue manager."""
        ...

    def report_command(self, text: str, *, shows: bool) -> None:
        """Put the command event of a successful MQSC command if CMDEV requires it. Set `shows` for a DISPLAY command."""

    @property
    def objects(self) -> ObjectAdministration:
        """Objects other than queues and topics, and the connections."""
        ...
