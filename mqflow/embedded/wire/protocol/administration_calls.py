"""The administration of queues, and of who may do what, as records that can be sent. Part of the requests in `calls`."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import Authority, Kind

__all__ = (
    "AdministrationOrder",
    "AdministrationQuestion",
    "Alter",
    "AlterQueueManager",
    "AuthorityOrder",
    "AuthorityQuestion",
    "Clear",
    "Define",
    "Delete",
    "DeleteAuthority",
    "ReadAuthorities",
    "ReadHeld",
    "ReadQueue",
    "ReadQueueManager",
    "ReadQueueStatus",
    "ReadQueues",
    "RefreshAuthorities",
    "SetAuthority",
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
    changes: Mapping[str, Any]
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

    changes: Mapping[str, Any]


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


AdministrationQuestion = ReadQueueManager | ReadQueues | ReadQueue | ReadQueueStatus
AdministrationOrder = Define | Alter | Delete | Clear | AlterQueueManager
AuthorityQuestion = ReadAuthorities | ReadHeld
AuthorityOrder = SetAuthority | DeleteAuthority | RefreshAuthorities
