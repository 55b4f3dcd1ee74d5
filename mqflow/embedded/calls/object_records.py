"""Finds, defines and deletes objects other than queues, in memory.

Callers hold the queue manager's lock. This file has no rules for a particular kind of object; `state/stored_objects.py` lists
the kinds.
"""

from collections.abc import Mapping
from functools import partial
from typing import TypeVar, cast

from msgspec import Struct

from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, kind_of, word_of
from mqflow.embedded.storage.store import ObjectDeleted

__all__ = ("change_objects", "define_object", "defined_objects", "delete_object", "records")

_Record = TypeVar("_Record", bound=Struct)


def records(state: QueueManagerState, kind: type[_Record]) -> dict[str, _Record]:
    """Return the objects of a kind, by name. The result is the queue manager's own dictionary, not a copy."""
    # `load_objects` fills this dictionary with records of this kind only, but its declared type is the general `Struct`.
    return cast("dict[str, _Record]", state.objects[kind_of(kind)])


def defined_objects(state: QueueManagerState, noun: Noun) -> dict[str, DefinedObject]:
    """Return the channels, namelists and so on, by key. The result is the queue manager's own dictionary, not a copy."""
    # As in `records`.
    return cast("dict[str, DefinedObject]", state.objects[kind_of(noun)])


def define_object(state: QueueManagerState, name: str, record: Struct) -> Pending[None]:
    """Define or alter an object, in memory."""
    return change_objects(state, word_of(record), {name: record})


def delete_object(state: QueueManagerState, name: str, kind: type[Struct] | Noun) -> Pending[None]:
    """Delete an existing object, in memory."""
    return change_objects(state, kind_of(kind), {name: None})


def change_objects(state: QueueManagerState, kind: str, changed: Mapping[str, Struct | None]) -> Pending[None]:
    """Define, alter or delete objects of a kind, in memory, by name. The value None deletes an object."""
    kept = state.objects[kind]
    before = {name: kept.get(name) for name in changed}

    def apply(wanted: Mapping[str, Struct | None]) -> None:
        for name, record in wanted.items():
            if record is None:
                kept.pop(name, None)
            else:
                kept[name] = record

    apply(changed)
    changes = [ObjectDeleted(kind, name) if record is None else defined(name, record) for name, record in changed.items()]
    return Pending(None, changes=changes, undo=(partial(apply, before),))
