"""The attributes of a queue, a topic or the queue manager: returns present values, checks changes, and changes open queues.

Callers hold the queue manager's lock. MQSET and the administrator's ALTER use the same steps. Only this file writes the
attributes of a queue.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, replace

from mqflow.embedded.calls.open import TEMPORARY_DYNAMIC, input_handles, output_handles
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.wait import wake_all
from mqflow.embedded.rules.attribute_values import accepted, accepts
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, QueueDefinition, Statistics
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import QueueDefined
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES, TopicAttributes
from mqflow.mqi.reason_codes import Reason

__all__ = ("attributes_now", "change_queue", "reset_statistics", "with_changes")

_Record = TypeVar("_Record", bound=Struct)


def attributes_now(queue: LocalQueue | QueueDefinition) -> QueueAttributes:
    """Return the definition with the present depth and open counts."""
    if isinstance(queue, QueueDefinition):
        return queue.attributes
    return replace(
        queue.attributes,
        depth=queue.depth,
        open_input_count=len(input_handles(queue)),
        open_output_count=len(output_handles(queue)),
    )


def reset_statistics(state: QueueManagerState, queue: LocalQueue) -> Statistics:
    """Return the counts of the queue since its last reset, and set them to 0. The service interval timer continues."""
    before = queue.statistics
    queue.statistics = Statistics(state.clock.monotonic(), queue.depth, before)
    return before


def change_queue(state: QueueManagerState, queue: LocalQueue | QueueDefinition, changes: Mapping[str, object]) -> Pending[None]:
    """Change attributes of a queue, in memory, and wake its waiters. A change of a temporary queue is not stored."""
    before = queue.attributes
    queue.attributes = state.dated(with_changes(before, changes))
    is_triggered = isinstance(queue, LocalQueue) and (before.trigger or queue.attributes.trigger)

    def undo() -> None:
        queue.attributes = before
        if is_triggered:
            state.triggers_changed()

    _wake(queue)
    then: Callable[[], None] | None = None
    if isinstance(queue, LocalQueue) and is_triggered:
        state.triggers_changed()
        then = None if state.watcher is None else partial(state.watcher.may_trigger, queue)
    if isinstance(queue, LocalQueue) and before.definition_type == TEMPORARY_DYNAMIC:
        if then is not None:
            then()
        return Pending(None)  # the store does not keep this queue: a restart must not bring it back.
    # A depth trigger also stores the attributes, so the queue triggers after the change is durable.
    return Pending(None, changes=(QueueDefined(queue.attributes),), undo=(undo,), then=then)


def with_changes(record: _Record, changes: Mapping[str, object]) -> _Record:
    """Return the record with these changes. Refuses an unknown field with 2067, and an invalid value with 2319."""
    unknown = set(changes) - set(record.__struct_fields__)
    if unknown:
        raise Refusal(Reason.SELECTOR_ERROR, f"There is no attribute {', '.join(sorted(unknown))}")
    try:
        changed = convert({**asdict(record), **changes}, type(record), strict=False)
    except ValidationError as error:
        raise Refusal(Reason.ITEM_VALUE_ERROR, str(error)) from error
    for spec in _specs_of(changed):
        # The field name comes from the table.
        if spec.field in changes and not accepts(spec, getattr(changed, spec.field)):
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"{changes[spec.field]!r} for {spec.keyword}; {accepted(spec)}")
    return changed


def _wake(queue: LocalQueue | QueueDefinition) -> None:
    """Wake the waiters on the queue, or on the queue of this alias: their gets may now be refused."""
    if isinstance(queue, LocalQueue):
        wake_all(queue)
    else:
        for handle in queue.handles:
            if handle.queue is not None:
                wake_all(handle.queue)


def _specs_of(record: Struct) -> tuple[AttributeSpec, ...]:
    match record:
        case QueueAttributes():
            return tuple(spec for spec in QUEUE_ATTRIBUTES if record.kind in spec.kinds)
        case TopicAttributes():
            return TOPIC_ATTRIBUTES
        case _:
            return QUEUE_MANAGER_ATTRIBUTES
