"""What MQSC may ask of a queue manager: definitions and status, without a connection or a unit of work.

The contract between the commands of `mqsc` and the state machine; records and a protocol, no rule.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from mqflow.embedded.catalogue.kinds import DefinedObject, Noun
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, Kind
from mqflow.mqi.authority_records import AuthorityRecord
from mqflow.mqi.subscription import SubscriptionAttributes

__all__ = (
    "Administration",
    "AuthorityAdministration",
    "ConnectionHandle",
    "ConnectionStatus",
    "HandleStatus",
    "ObjectAdministration",
    "QueueStatus",
    "SubscriptionStatus",
    "TopicAdministration",
    "TopicStatus",
)


class HandleStatus(Struct, frozen=True, kw_only=True):
    """One open handle of a queue (DISPLAY QSTATUS TYPE(HANDLE))."""

    application: str
    user: str
    connection: str
    input_mode: str
    """NO, SHARED or EXCL."""
    browse: bool
    inquire: bool
    output: bool
    set: bool


class QueueStatus(Struct, frozen=True, kw_only=True):
    """How a local queue stands (DISPLAY QSTATUS TYPE(QUEUE))."""

    name: str
    depth: int
    open_input_count: int
    open_output_count: int
    uncommitted: int
    """Puts and gets under way in units of work."""
    oldest_message_age_s: int | None
    last_put_date: str = ""
    last_put_time: str = ""
    last_get_date: str = ""
    last_get_time: str = ""
    handles: tuple[HandleStatus, ...] = ()


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
    #: APPLTYPE: the queue manager's own, not a user's.
    system: bool
    #: Puts and gets that are not committed.
    operations: int
    handles: tuple[ConnectionHandle, ...] = ()


class SubscriptionStatus(Struct, frozen=True, kw_only=True):
    """A subscription, and which connection holds it (DISPLAY SBSTATUS)."""

    attributes: SubscriptionAttributes
    #: 16 hexadecimal digits; empty where no application holds it.
    connection: str = ""


class TopicStatus(Struct, frozen=True, kw_only=True):
    """How a topic stands: what holds for it, nothing left to a parent (DISPLAY TPSTATUS)."""

    topic_string: str
    attributes: TopicAttributes
    #: Subscriptions to exactly this topic string.
    subscription_count: int
    retained: bool


class AuthorityAdministration(Protocol):
    """Who may do what. The first record turns the checks on; every refusal is an `MQIError` with MQ's reason."""

    def records(self) -> tuple[AuthorityRecord, ...]:
        """All authority records, by kind of object, profile and entity."""
        ...

    def held(self, kind: Kind, name: str, entity: str, *, group: bool) -> frozenset[Authority]:
        """What a user, with its groups, or a group alone may do with an object."""
        ...

    def set(
        self, kind: Kind, profile: str, entity: str, *, group: bool, add: Iterable[Authority], remove: Iterable[Authority]
    ) -> None:
        """Add authorities to a record, making it, and then take others from it."""
        ...

    def delete(self, kind: Kind, profile: str, entity: str, *, group: bool) -> None:
        """Delete a record; 2085 where there is none."""
        ...

    def refresh(self) -> None:
        """Ask the system again who is in which group."""
        ...


class TopicAdministration(Protocol):
    """Topic objects, subscriptions and what is retained. Every refusal is an `MQIError` with MQ's reason."""

    def topics(self) -> tuple[TopicAttributes, ...]:
        """All topic objects, by name."""
        ...

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object; 2100 where the name is taken unless `replace`, 2425 where another has its topic string."""
        ...

    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change fields of a topic object; 2085 where there is none. Its topic string stays."""
        ...

    def delete_topic(self, name: str) -> None:
        """Delete a topic object; 2085 where there is none. Subscriptions to its topic stay."""
        ...

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """How every topic stands that has an object, a subscription or something retained, by topic string."""
        ...

    def clear_retained(self, topic_string: str) -> None:
        """Forget what is retained on this topic (CLEAR TOPICSTR); 2085 where nothing is."""
        ...

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """All subscriptions, by name."""
        ...

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription by values of the table; 2432 where the name is taken unless `replace`."""
        ...

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change a subscription by values of the table; 2428 where there is none."""
        ...

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with its managed queue; 2428 where there is none, 2429 while an application holds it."""
        ...


class ObjectAdministration(Protocol):
    """Objects that are defined and shown. `noun` is a key of `defined_kinds.DEFINED_KINDS`; refusals are `MQIError`."""

    def all(self, noun: Noun) -> tuple[DefinedObject, ...]:
        """All objects of a kind, by name."""
        ...

    def define(self, attributes: DefinedObject, *, replace: bool = False) -> None:
        """Define an object; 2100 where the name is taken, unless `replace` and the type is the same."""
        ...

    def alter(self, noun: Noun, name: str, changes: Mapping[str, object], *, client: bool = False) -> None:
        """Change fields of an object; 2085 where there is none. `client`: a client-connection channel."""
        ...

    def delete(self, noun: Noun, name: str, *, client: bool = False) -> None:
        """Delete an object; 2085 where there is none."""
        ...

    def connections(self) -> tuple[ConnectionStatus, ...]:
        """Who is connected, in order of identifier; the queue manager's own command server among them."""
        ...


class Administration(Protocol):
    """Definitions and status. Every refusal is an `MQIError` with MQ's reason; a change is durable when the call returns."""

    @property
    def authorities(self) -> AuthorityAdministration:
        """Who may do what."""
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
        """All queues, of every kind, by name; `depth` and open counts as they are now."""
        ...

    def queue(self, name: str) -> QueueAttributes | None:
        """The queue of that name, or None."""
        ...

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        """Define a queue; 2100 where the name is taken, unless `replace` and the kind is the same."""
        ...

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        """Change fields of a queue; 2042 where it is open and the change matters to those who opened it, unless `force`."""
        ...

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        """Delete a queue; 2042 while it is open, 2055 while it holds messages unless `purge`.

        The authority records of exactly this name go with it, unless `keep_authorities`.
        """
        ...

    def clear(self, name: str) -> None:
        """Take every message off a local queue; 2042 while it is open or has uncommitted messages."""
        ...

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        """Change fields of the queue manager."""
        ...

    def queue_status(self, name: str) -> QueueStatus:
        """How a local queue stands; 2085 where there is none."""
        ...

    @property
    def objects(self) -> ObjectAdministration:
        """Objects that are no queues, and connections."""
        ...
