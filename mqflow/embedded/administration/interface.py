"""What MQSC may ask of a queue manager: definitions and status, without a connection or a unit of work.

The contract between the commands of `mqsc` and the state machine; records and a protocol, no rule.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from mqflow.embedded.administration.object_administration import ObjectAdministration
from mqflow.embedded.administration.topic_administration import TopicAdministration
from mqflow.mqi.attributes.queue import QueueAttributes, QueueManagerAttributes
from mqflow.mqi.authorities import Authority, Kind
from mqflow.mqi.authority_records import AuthorityRecord

__all__ = ("Administration", "AuthorityAdministration", "HandleStatus", "QueueStatus")


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
