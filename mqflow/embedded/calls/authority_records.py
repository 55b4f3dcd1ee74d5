"""Changes the authority records of a queue manager in memory, and deletes the records of a deleted object.

Callers hold the queue manager's lock. Only this file writes the records of kind `authority`. Source: IBM, "Authorizations for
MQI calls".
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.calls.object_records import change_objects, delete_object, records
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.catalogue.kinds import Noun
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import kind_of
from mqflow.embedded.storage.store import Change
from mqflow.mqi.authorities import ADMINISTRATION, MQI, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord

__all__ = ("change_authorities", "delete_with_authorities", "end_authorities", "give_to_creator", "stored_name")

_ALL_ON_QUEUES: Final = MQI[AuthorityKind.QUEUE] | ADMINISTRATION[AuthorityKind.QUEUE]


def stored_name(record: AuthorityRecord) -> str:
    """Return the key of a record in the store: one key for each kind of object, profile and entity."""
    return f"{record.kind} {record.profile} {'GROUP' if record.group else 'PRINCIPAL'} {record.entity}"


def change_authorities(state: QueueManagerState, changed: Mapping[str, AuthorityRecord | None]) -> Pending[None]:
    """Change records in memory, by their stored names. The value None deletes a record."""
    pending = change_objects(state, kind_of(AuthorityRecord), changed)
    state.authorities.forget()
    return pending.undone_by(state.authorities.forget)


def end_authorities(state: QueueManagerState, kind: AuthorityKind, name: str) -> Pending[None]:
    """Delete the records whose profile is exactly this name, in memory."""
    kept = records(state, AuthorityRecord).values()
    return change_authorities(state, {stored_name(each): None for each in kept if (each.kind, each.profile) == (kind, name)})


def delete_with_authorities(
    state: QueueManagerState, key: str, kind: type[Struct] | Noun, name: str, authorities: AuthorityKind
) -> Pending[None]:
    """Delete an existing object, and the authority records whose profile is exactly its name, in memory."""
    ended, pending = end_authorities(state, authorities, name), delete_object(state, key, kind)
    return replace(pending, changes=(*(pending.changes or ()), *(ended.changes or ()))).undone_by(*ended.undo)


def give_to_creator(state: QueueManagerState, queue: str, user: str) -> Sequence[Change]:
    """Give the creator of a permanent dynamic queue every authority on it, in memory. Return the changes for the store."""
    if state.authorities.administers(user):
        return ()
    record = AuthorityRecord(kind=AuthorityKind.QUEUE, profile=queue, entity=user, authorities=_ALL_ON_QUEUES)
    return change_authorities(state, {stored_name(record): record}).changes or ()
