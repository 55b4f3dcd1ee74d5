"""Changes the authority records of a queue manager in memory, and deletes the records of a deleted object.

Callers hold the queue manager's lock. Only this file writes the records of kind `authority`. Source: IBM, "Authorizations for
MQI calls".
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.calls.object_records import delete_object, records
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.catalogue.kinds import Noun
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, deleted
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
    undo = _change(state, changed)
    changes = [deleted(name, AuthorityRecord) if each is None else defined(name, each) for name, each in changed.items()]
    return Pending(None, changes=changes, undo=(undo,))


def end_authorities(state: QueueManagerState, kind: AuthorityKind, name: str) -> tuple[list[Change], Callable[[], None]]:
    """Delete the records whose profile is exactly this name, in memory.

    Return the changes for the store, and a function that undoes the deletion.
    """
    kept = records(state, AuthorityRecord).values()
    ended = {stored_name(each): None for each in kept if (each.kind, each.profile) == (kind, name)}
    return [deleted(each, AuthorityRecord) for each in ended], _change(state, ended)


def delete_with_authorities(
    state: QueueManagerState, key: str, kind: type[Struct] | Noun, name: str, authorities: AuthorityKind
) -> Pending[None]:
    """Delete an existing object, and the authority records whose profile is exactly its name, in memory."""
    ended, restore = end_authorities(state, authorities, name)
    pending = delete_object(state, key, kind)
    return replace(pending, changes=(*(pending.changes or ()), *ended)).undone_by(restore)


def give_to_creator(state: QueueManagerState, queue: str, user: str) -> list[Change]:
    """Give the creator of a permanent dynamic queue every authority on it, in memory. Return the changes for the store."""
    if state.authorities.administers(user):
        return []
    record = AuthorityRecord(kind=AuthorityKind.QUEUE, profile=queue, entity=user, authorities=_ALL_ON_QUEUES)
    _change(state, {stored_name(record): record})
    return [defined(stored_name(record), record)]


def _change(state: QueueManagerState, changed: Mapping[str, AuthorityRecord | None]) -> Callable[[], None]:
    """Change these authority records in memory, and return a function that undoes the change."""
    kept = records(state, AuthorityRecord)
    before = {name: kept.get(name) for name in changed}

    def apply(wanted: Mapping[str, AuthorityRecord | None]) -> None:
        for name, record in wanted.items():
            if record is not None:
                kept[name] = record
            else:
                kept.pop(name, None)
        state.authorities.forget()

    apply(changed)
    return partial(apply, before)
