"""Finds, defines and deletes objects other than queues, in memory.

Callers hold the queue manager's lock. This file has no rules for a particular kind of object; `state/stored_objects.py` lists
the kinds.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Struct

from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, deleted, kind_of, word_of

__all__ = ("define_object", "defined_objects", "delete_object", "records")

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
    kept = state.objects[word_of(record)]
    undo = _restore(kept, name)
    kept[name] = record
    return Pending(None, changes=(defined(name, record),), undo=(undo,))


def delete_object(state: QueueManagerState, name: str, kind: type[Struct] | Noun) -> Pending[None]:
    """Delete an existing object, in memory."""
    kept = state.objects[kind_of(kind)]
    undo = _restore(kept, name)
    del kept[name]
    return Pending(None, changes=(deleted(name, kind),), undo=(undo,))


# Any: a dictionary type is invariant, so no narrower type fits the dictionaries of all kinds.
def _restore(kept: dict[str, Any], name: str) -> Callable[[], None]:
    before = kept.get(name)

    def undo() -> None:
        if before is None:
            kept.pop(name, None)
        else:
            kept[name] = before

    return undo
