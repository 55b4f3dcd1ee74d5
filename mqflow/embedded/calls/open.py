"""MQOPEN and MQCLOSE: names resolved, exclusivity kept, dynamic queues made and deleted.

Called under the machine's lock. Source: IBM, MQOPEN and MQCLOSE; q003140 (dynamic queues); rc2086.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.administration.authorities import end_authorities, give_to_creator
from mqflow.embedded.calls import browse
from mqflow.embedded.calls.selection import compiled
from mqflow.embedded.calls.settle import make_durable, release
from mqflow.embedded.calls.topic_authority import check_topic_authority
from mqflow.embedded.calls.wait import stop_waiting, wake_all
from mqflow.embedded.rules.open_options import check_open_options
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import LocalQueue, QueuedMessage
from mqflow.embedded.state.handle import INPUT, Definition, EmbeddedHandle
from mqflow.embedded.state.identifiers import dynamic_queue_name
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import QueueDefined, QueueDeleted
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, Kind, Need, needed_to_open
from mqflow.mqi.names import is_object_name
from mqflow.mqi.option_names import option_names
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.topic_strings import is_topic_string, joined
from mqflow.verbs import ObjectDescriptor

if TYPE_CHECKING:
    from mqflow.embedded.connection import EmbeddedConnection

__all__ = (
    "MANAGED_DURABLE",
    "PERMANENT_DYNAMIC",
    "TEMPORARY_DYNAMIC",
    "Wanted",
    "bring_back",
    "close_handle",
    "delete_queue",
    "drop_managed",
    "drop_queue",
    "input_handles",
    "managed_queue",
    "open_object",
    "output_handles",
    "stored_serials",
    "topic_string_of",
)

MANAGED_DURABLE: Final = "SYSTEM.MANAGED.DURABLE."
"""How the names of the managed queues of durable subscriptions begin."""
_MANAGED_NOT_DURABLE: Final = "SYSTEM.MANAGED.NDURABLE."
PERMANENT_DYNAMIC: Final = 2
TEMPORARY_DYNAMIC: Final = 3
_UNSUPPORTED: Final = frozenset({ObjectType.NAMELIST, ObjectType.PROCESS})
_TOPIC_TARGET: Final = 8


class Wanted(Struct, frozen=True, gc=False):
    """What MQOD and the options ask for."""

    descriptor: ObjectDescriptor
    options: OpenOption
    #: The queue manager opens it for the application: nobody's authority is asked.
    trusted: bool = False
    #: For MQPUT1, which takes no model (rc2057): the message would go with the queue that was made for it.
    for_one_put: bool = False


def open_object(state: QueueManagerState, connection: "EmbeddedConnection", wanted: Wanted) -> EmbeddedHandle:
    """Return a new handle, entered with its queue and its connection."""
    check_open_options(wanted.options, wanted.descriptor.object_type)
    if state.quiescing and wanted.options & OpenOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if len(connection.handles) >= state.attributes.max_handles:
        raise Refusal(Reason.HANDLE_NOT_AVAILABLE, f"{len(connection.handles)} handles are open")
    _check_queue_manager(state, wanted)
    handle = EmbeddedHandle(connection, wanted.descriptor.name, wanted.options, wanted.descriptor.object_type)
    handle.selector = compiled(wanted.descriptor.selection, wanted.descriptor.object_type, handle.bits)
    if wanted.descriptor.object_type == ObjectType.Q_MGR:
        _check_authority(state, connection, wanted)
    elif wanted.descriptor.object_type == ObjectType.Q:
        _attach(state, handle, wanted)
    elif wanted.descriptor.object_type == ObjectType.TOPIC:
        _aim(state, handle, wanted.descriptor.name, wanted)
    elif wanted.descriptor.object_type in _UNSUPPORTED:
        kind = ObjectType(wanted.descriptor.object_type).name.lower()
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"The embedded queue manager has no objects of type {kind}")
    else:
        raise Refusal(Reason.OBJECT_TYPE_ERROR, f"Object type {wanted.descriptor.object_type}")
    connection.handles.add(handle)
    return handle


def close_handle(state: QueueManagerState, handle: EmbeddedHandle, options: CloseOption) -> Callable[[], None] | None:
    """Close the handle: locks, marks and waits of it end, and a dynamic queue goes where the rules say so.

    Returns what waits until the end of a permanent one is durable; where that is refused, the queue is there again.
    """
    queue = handle.queue
    deletes = _deletes(options)
    if deletes:
        _check_delete(state, handle, options)
    handle.open = False
    if queue is None:
        return None
    stop_waiting(handle)
    browse.forget(handle, queue)
    queue.handles.discard(handle)
    if handle.selector is not None:
        queue.selecting.remove(handle)
    if handle.alias is not None:
        handle.alias.handles.discard(handle)
    dynamic = queue.attributes.definition_type
    if handle.takes_queue_along:
        drop_managed(state, queue.name)
    elif not queue.deleted and dynamic == PERMANENT_DYNAMIC and deletes:
        return delete_queue(state, queue)
    elif not queue.deleted and dynamic == TEMPORARY_DYNAMIC and handle.creator:
        drop_queue(state, queue)
        ended, _ = end_authorities(state, Kind.QUEUE, queue.name)
        if ended:
            state.store.write(ended, None)
    return None


def delete_queue(
    state: QueueManagerState, queue: LocalQueue | Definition, *, keep_authorities: bool = False
) -> Callable[[], None]:
    """Delete a queue with what is on it, in memory; the function returned waits until that is durable, or it is undone."""
    name = queue.attributes.name
    messages: Sequence[QueuedMessage] = ()
    if isinstance(queue, LocalQueue):
        messages = drop_queue(state, queue)
        change = QueueDeleted(name, stored_serials(queue, messages))
    else:
        del state.queues[name]
        change = QueueDeleted(name, ())
    ended, restore = ([], None) if keep_authorities else end_authorities(state, Kind.QUEUE, name)

    def undo() -> None:
        if restore is not None:
            restore()
        state.queues[name] = queue
        if isinstance(queue, LocalQueue):
            queue.deleted = False
            bring_back(state, queue, messages)

    return make_durable(state, (change, *ended), undo)


def stored_serials(queue: LocalQueue, messages: Sequence[QueuedMessage]) -> tuple[int, ...] | None:
    """Return the serials of all that the store has of the queue; None where units of work under way may change that."""
    return None if queue.uncommitted else tuple(message.serial for message in messages if message.stored)


def bring_back(state: QueueManagerState, queue: LocalQueue, messages: Sequence[QueuedMessage]) -> None:
    """Have messages on the queue again, beside what came meanwhile."""
    state.bodies.kept(messages)
    for message in messages:
        release(queue, message)


def drop_queue(state: QueueManagerState, queue: LocalQueue) -> list[QueuedMessage]:
    """Delete the queue, in memory, and return what was on it. Work under way on it ends in nothing, other handles get 2052."""
    queue.deleted = True
    del state.queues[queue.name]
    state.authorities.creators.pop(queue.name, None)
    messages = queue.clear()
    for message in messages:
        state.bodies.gone(message)
    wake_all(queue)
    return messages


def managed_queue(state: QueueManagerState, model: str, *, durable: bool, user: str) -> str:
    """Make the managed queue of a subscription from the topic's model, whose attributes it has, and return its name."""
    found = state.queues.get(model)
    if not isinstance(found, Definition) or found.attributes.kind is not QueueType.MODEL:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"The topic's model queue {model} does not exist")
    if durable and found.attributes.definition_type == TEMPORARY_DYNAMIC:
        detail = f"The topic's model {model} makes temporary queues, which do not outlive the application"
        raise Refusal(Reason.DURABILITY_NOT_ALLOWED, detail)
    return _dynamic(state, found, f"{MANAGED_DURABLE if durable else _MANAGED_NOT_DURABLE}*", user).name


def drop_managed(state: QueueManagerState, name: str) -> None:
    """Delete the managed queue of a subscription that is over, with what is on it, where it is still there."""
    queue = state.queues.get(name)
    if not isinstance(queue, LocalQueue):
        return
    serials = stored_serials(queue, drop_queue(state, queue))
    ended, _ = end_authorities(state, Kind.QUEUE, name)
    if queue.attributes.definition_type == PERMANENT_DYNAMIC:
        state.store.write((QueueDeleted(name, serials), *ended), None)


def topic_string_of(state: QueueManagerState, object_name: str, object_string: str) -> str:
    """Return the whole topic string. Refuses with 2085 an unknown topic object, with 2425 what is no topic string."""
    known = ""
    if object_name:
        topic = state.objects["topic"].get(object_name)
        if not isinstance(topic, TopicAttributes):
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"There is no topic object {object_name}")
        known = topic.topic_string
    topic_string = joined(known, object_string)
    if not is_topic_string(topic_string):
        raise Refusal(Reason.TOPIC_STRING_ERROR, "A topic string has 1 to 10240 characters, none of them NUL")
    return topic_string


def input_handles(queue: LocalQueue) -> list[EmbeddedHandle]:
    """Return the handles that are open for input."""
    return [handle for handle in queue.handles if handle.bits & INPUT]


def output_handles(queue: LocalQueue) -> list[EmbeddedHandle]:
    """Return the handles that are open for output."""
    return [handle for handle in queue.handles if handle.bits & OpenOption.OUTPUT]


def _check_queue_manager(state: QueueManagerState, wanted: Wanted) -> None:
    if wanted.descriptor.object_type == ObjectType.Q_MGR:
        if wanted.descriptor.name not in {"", state.name}:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"This queue manager is {state.name}")
        if wanted.descriptor.queue_manager not in {"", state.name}:
            raise Refusal(Reason.UNKNOWN_OBJECT_Q_MGR, f"This queue manager is {state.name}")
        return
    if wanted.descriptor.object_type == ObjectType.TOPIC and not wanted.descriptor.name:
        return
    if not is_object_name(wanted.descriptor.name):
        raise Refusal(Reason.OBJECT_NAME_ERROR, f"{wanted.descriptor.name!r} is no name of an object")
    if wanted.descriptor.queue_manager in {"", state.name}:
        return
    if not is_object_name(wanted.descriptor.queue_manager):
        raise Refusal(Reason.UNKNOWN_OBJECT_Q_MGR, f"{wanted.descriptor.queue_manager!r} is no name of a queue manager")
    local_use = wanted.options & (INPUT | OpenOption.BROWSE | OpenOption.INQUIRE | OpenOption.SET)
    reason = Reason.UNKNOWN_OBJECT_Q_MGR if local_use else Reason.UNKNOWN_REMOTE_Q_MGR
    raise Refusal(reason, f"{wanted.descriptor.queue_manager} is not {state.name}, and there are no channels to others here")


def _attach(state: QueueManagerState, handle: EmbeddedHandle, wanted: Wanted) -> None:
    found = state.queues.get(wanted.descriptor.name)
    if found is None:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
    _check_authority(state, handle.connection, wanted)
    if isinstance(found, Definition) and found.attributes.kind is QueueType.MODEL:
        if wanted.for_one_put:
            raise Refusal(Reason.Q_TYPE_ERROR, "It is a model: open it, and put to the queue that is made")
        queue = _dynamic(state, found, wanted.descriptor.dynamic_name, handle.connection.user)
        handle.name = queue.name
        handle.creator = True
    elif isinstance(found, Definition) and found.attributes.target_type == _TOPIC_TARGET:
        check_open_options(wanted.options, ObjectType.TOPIC)
        _aim(state, handle, found.attributes.target, wanted)
        return
    else:
        queue = found if isinstance(found, LocalQueue) else state.target_of(found.attributes)
    _check_sharing(queue, handle)
    queue.handles.add(handle)
    if handle.selector is not None:
        queue.selecting.append(handle)
    handle.queue = queue
    handle.seen_changes = queue.changes
    if isinstance(found, Definition) and not handle.creator:
        found.handles.add(handle)
        handle.alias = found
        handle.seen_changes += found.changes


def _aim(state: QueueManagerState, handle: EmbeddedHandle, object_name: str, wanted: Wanted) -> None:
    """Make what is put to the handle a publication."""
    handle.topic = topic_string_of(state, object_name, wanted.descriptor.object_string)
    user = handle.connection.user
    publisher = wanted.descriptor.alternate_user if wanted.options & OpenOption.ALTERNATE_USER_AUTHORITY else user
    if wanted.descriptor.object_type != ObjectType.TOPIC:  # an alias, of which its own name was checked before
        check_topic_authority(state, publisher, handle.topic, Authority.PUB)
        return
    for need in needed_to_open(object_name, wanted.options, ObjectType.TOPIC):
        if need.kind is Kind.QMGR:
            state.authorities.check(user, (need,))
        else:
            check_topic_authority(state, user if need.own else publisher, handle.topic, need.authority)


def _check_authority(state: QueueManagerState, connection: "EmbeddedConnection", wanted: Wanted) -> None:
    """Refuse with 2035 who lacks an authority on the very name that is opened: of an alias or a model, on that name only."""
    if state.authorities.checked and not wanted.trusted:
        alternate = wanted.descriptor.alternate_user if wanted.options & OpenOption.ALTERNATE_USER_AUTHORITY else None
        needs = needed_to_open(wanted.descriptor.name, wanted.options, wanted.descriptor.object_type)
        state.authorities.check(connection.user, needs, alternate)


def _check_sharing(queue: LocalQueue, handle: EmbeddedHandle) -> None:
    if not handle.bits & INPUT:
        return
    if handle.bits & OpenOption.INPUT_AS_Q_DEF:
        handle.bits = handle.bits & ~INPUT | queue.attributes.default_input_open_option
    inputs = input_handles(queue)
    if not inputs:
        return
    if handle.bits & OpenOption.INPUT_EXCLUSIVE:
        raise Refusal(Reason.OBJECT_IN_USE, f"{len(inputs)} handles have it open for input")
    if any(other.bits & OpenOption.INPUT_EXCLUSIVE for other in inputs):
        raise Refusal(Reason.OBJECT_IN_USE, "A handle has it open for exclusive input")
    if not queue.attributes.shareable:
        raise Refusal(Reason.OBJECT_IN_USE, "It is NOSHARE and open for input")


def _dynamic(state: QueueManagerState, model: Definition, wanted: str, user: str) -> LocalQueue:
    name = dynamic_queue_name(wanted, state.identifiers.number())
    if name in state.queues:
        raise Refusal(Reason.OBJECT_ALREADY_EXISTS, f"The dynamic queue was to be called {name}")
    made = replace(model.attributes, name=name, kind=QueueType.LOCAL, creation_date="", creation_time="")
    attributes = state.dated(made)
    queue = LocalQueue(attributes)
    state.queues[name] = queue
    if attributes.definition_type == TEMPORARY_DYNAMIC:
        state.authorities.creators[name] = user
    else:
        state.store.write((QueueDefined(attributes), *give_to_creator(state, name, user)), None)
    return queue


def _deletes(options: CloseOption) -> bool:
    """Whether the close is to delete the queue."""
    if options & ~(CloseOption.DELETE | CloseOption.DELETE_PURGE):
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, f"{option_names(options)} is for subscriptions")
    if options == CloseOption.DELETE | CloseOption.DELETE_PURGE:
        raise Refusal(Reason.OPTIONS_ERROR, "DELETE and DELETE_PURGE exclude each other")
    return bool(options)


def _check_delete(state: QueueManagerState, handle: EmbeddedHandle, options: CloseOption) -> None:
    queue = handle.queue
    if queue is None or queue.attributes.definition_type not in {PERMANENT_DYNAMIC, TEMPORARY_DYNAMIC}:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "Only a dynamic queue can be deleted by closing it")
    if queue.attributes.definition_type == TEMPORARY_DYNAMIC:
        if not handle.creator:
            raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "A temporary queue goes with the handle that made it, not this one")
        return
    if not handle.creator:
        state.authorities.check(handle.connection.user, (Need(Kind.QUEUE, queue.name, Authority.DLT, own=True),))
    if queue.uncommitted:
        raise Refusal(Reason.Q_NOT_EMPTY, f"{queue.uncommitted} puts and gets on it are not committed")
    if queue.messages and not options & CloseOption.DELETE_PURGE:
        raise Refusal(Reason.Q_NOT_EMPTY, f"{queue.depth} messages are on it")
