"""The objects that are no queues, found, defined and deleted: in memory at once, durable when the caller has waited.

Called under the machine's lock. Knows no rule of any kind of object; which kinds there are is in `object_kinds`.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Struct

from mqflow.embedded.calls.settle import make_durable
from mqflow.embedded.catalogue.kinds import DefinedObject, Noun
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, deleted, kind_of, word_of

__all__ = ("define_object", "defined_objects", "delete_object", "records")

_Record = TypeVar("_Record", bound=Struct)


def records(state: QueueManagerState, kind: type[_Record]) -> dict[str, _Record]:
    """Return the objects of a kind by name: the machine's own dictionary."""
    return cast("dict[str, _Record]", state.objects[kind_of(kind)])


def defined_objects(state: QueueManagerState, noun: Noun) -> dict[str, DefinedObject]:
    """Return the channels, namelists, ... by their key: the queue manager's own dictionary."""
    return cast("dict[str, DefinedObject]", state.objects[kind_of(noun)])


def define_object(state: QueueManagerState, name: str, record: Struct) -> Callable[[], None]:
    """Define or alter in memory; the function returned waits, without the lock, until that is durable."""
    kept = state.objects[word_of(record)]
    undo = _restoring(kept, name)
    kept[name] = record
    return make_durable(state, (defined(name, record),), undo)


def delete_object(state: QueueManagerState, name: str, kind: type[Struct]) -> Callable[[], None]:
    """Delete in memory an object that is there; the function returned waits, without the lock, until that is durable."""
    kept = records(state, kind)
    undo = _restoring(kept, name)
    del kept[name]
    return make_durable(state, (deleted(name, kind),), undo)


def _restoring(kept: dict[str, Any], name: str) -> Callable[[], None]:
    before = kept.get(name)

    def undo() -> None:
        if before is None:
            kept.pop(name, None)
        else:
            kept[name] = before

    return undo
