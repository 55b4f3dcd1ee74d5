"""MQOPEN and MQCLOSE: resolve names, check exclusive input, create and delete dynamic queues.

Callers hold the queue manager's lock. Source: IBM, MQOPEN and MQCLOSE; q003140 (dynamic queues); rc2086.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.calls import browse
from mqflow.embedded.calls.authority_records import end_authorities, give_to_creator
from mqflow.embedded.calls.message_selection import compile_selection
from mqflow.embedded.calls.object_records import defined_objects
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.wait import stop_waiting, wake_all
from mqflow.embedded.catalogue.kinds import Noun
from mqflow.embedded.rules.open_options import INPUT, check_open_options
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST, Emptied
from mqflow.embedded.state.identifiers import dynamic_queue_name
from mqflow.embedded.state.objects import ConnectionState, LocalQueue, ObjectHandle, QueueDefinition
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import QueueDefined, QueueDeleted
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind, Need, needed_to_open
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import CloseOption, ObjectType, OpenOption, QueueType, option_names
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.topic_strings import is_topic_string, joined
from mqflow.verbs import ObjectDescriptor

__all__ = (
    "MANAGED",
    "PERMANENT_DYNAMIC",
    "TEMPORARY_DYNAMIC",
    "Wanted",
    "check_topic_authority",
    "close_handle",
    "delete_queue",
    "drop_managed",
    "drop_queue",
    "empty",
    "input_handles",
    "managed_queue",
    "open_object",
    "output_handles",
    "put_back",
    "remote_definition",
    "stored_serials",
    "topic_string_of",
    "transmission_of",
)

_MANAGED_DURABLE: Final = "SYSTEM.MANAGED.DURABLE."
_MANAGED_NOT_DURABLE: Final = "SYSTEM.MANAGED.NDURABLE."
MANAGED: Final = (_MANAGED_DURABLE, _MANAGED_NOT_DURABLE)
"""The prefixes of the names of managed queues: of durable subscriptions, and of other subscriptions."""
PERMANENT_DYNAMIC: Final = 2
TEMPORARY_DYNAMIC: Final = 3
_DEFINED: Final[dict[int, Noun]] = {ObjectType.NAMELIST: "NAMELIST", ObjectType.PROCESS: "PROCESS"}
_TOPIC_TARGET: Final = 8
_OUTPUT: Final = int(OpenOption.OUTPUT)
_LOCAL_USES: Final = INPUT | int(OpenOption.BROWSE | OpenOption.INQUIRE | OpenOption.SET)


class Wanted(Struct, frozen=True, gc=False):
    """The request of an open: the object descriptor (MQOD) and the options."""

    descriptor: ObjectDescriptor
    options: OpenOption
    #: True if the queue manager opens the object for the application. Then no authority is checked.
    trusted: bool = False
    #: True if the open is part of MQPUT1. MQPUT1 refuses a model (rc2057): the message would be lost with the created queue.
    for_one_put: bool = False


def open_object(state: QueueManagerState, connection: ConnectionState, wanted: Wanted) -> ObjectHandle:
    """Return a new handle, registered with its queue and its connection."""
    check_open_options(wanted.options, wanted.descriptor.object_type)
    if state.quiescing and wanted.options & OpenOption.FAIL_IF_QUIESCING:
        raise Refusal(Reason.Q_MGR_QUIESCING)
    if (handles := len(connection.handles) + len(connection.subscriptions)) >= state.attributes.max_handles:
        raise Refusal(Reason.HANDLE_NOT_AVAILABLE, f"{handles} handles are open")
    is_queue = wanted.descriptor.object_type == ObjectType.Q
    manager_alias = state.manager_alias(wanted.descriptor.queue_manager) if is_queue else None
    if manager_alias is not None:
        wanted = _resolved(state, wanted, manager_alias)
    _check_queue_manager(state, wanted)
    handle = ObjectHandle(connection, wanted.descriptor.name, wanted.options, wanted.descriptor.object_type)
    handle.manager_alias = manager_alias
    handle.selector = compile_selection(wanted.descriptor.selection, wanted.descriptor.object_type, handle.bits)
    if wanted.descriptor.object_type == ObjectType.Q_MGR:
        _check_authority(state, connection, wanted)
    elif wanted.descriptor.object_type == ObjectType.Q:
        _attach(state, handle, wanted)
    elif wanted.descriptor.object_type == ObjectType.TOPIC:
        _attach_topic(state, handle, wanted.descriptor.name, wanted)
    elif (noun := _DEFINED.get(wanted.descriptor.object_type)) is not None:
        handle.noun = noun
        if handle.name not in defined_objects(state, noun):
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"There is no {noun} of this name")
        _check_authority(state, connection, wanted)
    else:
        raise Refusal(Reason.OBJECT_TYPE_ERROR, f"Object type {wanted.descriptor.object_type}")
    if manager_alias is not None:
        manager_alias.handles.add(handle)
    connection.handles.add(handle)
    return handle


def close_handle(state: QueueManagerState, handle: ObjectHandle, options: CloseOption) -> Pending[None]:
    """Close the handle with its locks, marks and waits. Delete a dynamic queue if its type and the options require this.

    If the store refuses the deletion of a permanent queue, the queue is restored, but the handle stays closed.
    """
    queue = handle.queue
    deletes = _deletes(options)
    if deletes:
        _check_delete(state, handle, options)
    handle.open = False
    for definition in filter(None, (handle.alias, handle.through, handle.manager_alias)):
        definition.handles.discard(handle)
    if queue is None:
        return Pending(None)
    stop_waiting(handle)
    browse.forget(handle, queue)
    queue.handles.discard(handle)
    if handle.selector is not None:
        queue.selecting.remove(handle)
    if queue.attributes.trigger and handle.bits & INPUT and state.watcher is not None:
        state.watcher.may_trigger(queue)
    dynamic = queue.attributes.definition_type
    if handle.takes_queue_along:
        drop_managed(state, queue.name)
    elif not queue.deleted and dynamic == PERMANENT_DYNAMIC and deletes:
        return delete_queue(state, queue)
    elif not queue.deleted and dynamic == TEMPORARY_DYNAMIC and handle.creator:
        drop_queue(state, queue)
        if ended := end_authorities(state, AuthorityKind.QUEUE, queue.name).changes:
            state.store.write(ended, None)
    return Pending(None)


def delete_queue(
    state: QueueManagerState, queue: LocalQueue | QueueDefinition, *, keep_authorities: bool = False
) -> Pending[None]:
    """Delete a queue and its messages, in memory."""
    name = queue.attributes.name
    emptied = Emptied((), ())
    if isinstance(queue, LocalQueue):
        emptied = drop_queue(state, queue)
        change = QueueDeleted(name, stored_serials(queue, emptied))
    else:
        del state.queues[name]
        change = QueueDeleted(name, ())
    ended = Pending(None) if keep_authorities else end_authorities(state, AuthorityKind.QUEUE, name)

    def undo() -> None:
        state.queues[name] = queue
        if isinstance(queue, LocalQueue):
            queue.deleted = False
            put_back(queue, emptied)
            if queue.attributes.trigger:
                state.triggers_changed()

    return Pending(None, changes=(change, *(ended.changes or ())), undo=(*ended.undo, undo))


def stored_serials(queue: LocalQueue, emptied: Emptied) -> tuple[int, ...] | None:
    """Return the serial numbers of the stored messages in `emptied`; None while the queue has uncommitted puts or gets."""
    return None if queue.uncommitted else emptied.stored_serials


def put_back(queue: LocalQueue, emptied: Emptied) -> None:
    """Put messages back on the queue, and wake its waiters. Messages that arrived meanwhile stay."""
    queue.put_back(emptied)
    for handle in queue.selecting:
        handle.passed_over = BEFORE_FIRST
    wake_all(queue)


def drop_queue(state: QueueManagerState, queue: LocalQueue) -> Emptied:
    """Delete the queue, and return its messages. The caller must remove both from the store.

    The queue's uncommitted messages are lost too: neither a commit nor a backout brings them back. Later calls on the queue's
    handles raise 2052.
    """
    queue.deleted = True
    del state.queues[queue.name]
    if queue.attributes.trigger:
        state.triggers_changed()
    state.authorities.creators.pop(queue.name, None)
    emptied = empty(state, queue)
    wake_all(queue)
    return emptied


def empty(state: QueueManagerState, queue: LocalQueue) -> Emptied:
    """Take every available message off the queue. Return the messages; the caller must remove them from the store."""
    emptied = queue.clear()
    for message in emptied.messages:
        state.pages.forget(message)
    return emptied


def managed_queue(state: QueueManagerState, model: str, *, durable: bool, user: str) -> str:
    """Create the managed queue of a subscription from the topic's model queue, and return its name."""
    found = state.queues.get(model)
    if not isinstance(found, QueueDefinition) or found.attributes.kind is not QueueType.MODEL:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"The topic's model queue {model} does not exist")
    if durable and found.attributes.definition_type == TEMPORARY_DYNAMIC:
        detail = f"The topic's model {model} creates temporary queues, which do not outlive the application"
        raise Refusal(Reason.DURABILITY_NOT_ALLOWED, detail)
    return _dynamic(state, found, f"{_MANAGED_DURABLE if durable else _MANAGED_NOT_DURABLE}*", user).name


def drop_managed(state: QueueManagerState, name: str) -> None:
    """Delete the managed queue of an ended subscription, with its messages. Do nothing if the queue is already deleted."""
    queue = state.queues.get(name)
    if not isinstance(queue, LocalQueue):
        return
    serials = stored_serials(queue, drop_queue(state, queue))
    ended = end_authorities(state, AuthorityKind.QUEUE, name)
    if queue.attributes.definition_type == PERMANENT_DYNAMIC:
        state.store.write((QueueDeleted(name, serials), *(ended.changes or ())), None)


def topic_string_of(state: QueueManagerState, object_name: str, object_string: str) -> str:
    """Return the full topic string. Refuses with 2085 an unknown topic object, and with 2425 an invalid topic string."""
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


def check_topic_authority(state: QueueManagerState, user: str, topic_string: str, authority: Authority) -> None:
    """Refuse with 2035 if no topic object between the topic and SYSTEM.BASE.TOPIC gives the user the authority.

    Source: IBM, "Access control for topics": an authority on a topic object applies to its topic and to every topic below.
    """
    if not state.authorities.checked:
        return
    names = state.topics.names_above(topic_string)
    if not any(authority in state.authorities.held(user, AuthorityKind.TOPIC, name) for name in names):
        state.authorities.check(user, (Need(AuthorityKind.TOPIC, names[0], authority),))


def input_handles(queue: LocalQueue) -> list[ObjectHandle]:
    """Return the handles that are open for input."""
    return [handle for handle in queue.handles if handle.bits & INPUT]


def remote_definition(state: QueueManagerState, found: LocalQueue | QueueDefinition | None) -> QueueDefinition | None:
    """Return the definition of a remote queue, even if `found` is its alias; None for any other queue."""
    base = state.queues.get(found.attributes.target) if found and found.attributes.kind is QueueType.ALIAS else found
    return base if isinstance(base, QueueDefinition) and base.attributes.kind is QueueType.REMOTE else None


def transmission_of(state: QueueManagerState, remote: QueueAttributes) -> tuple[LocalQueue, tuple[str, str]]:
    """Return the transmission queue of a remote queue; also the names of the queue and the queue manager at the other end."""
    if not remote.remote_queue:
        raise Refusal(Reason.REMOTE_Q_NAME_ERROR, "The definition has no RNAME")
    if remote.remote_queue_manager == state.name:  # q050110: also with XMITQ
        raise Refusal(Reason.UNKNOWN_REMOTE_Q_MGR, f"RQMNAME of {remote.name} is this queue manager")
    to = (remote.remote_queue, remote.remote_queue_manager)
    return state.transmission_queue(remote.transmission_queue, remote.remote_queue_manager), to


def output_handles(queue: LocalQueue) -> list[ObjectHandle]:
    """Return the handles that are open for output."""
    return [handle for handle in queue.handles if handle.bits & _OUTPUT]


def _resolved(state: QueueManagerState, wanted: Wanted, manager_alias: QueueDefinition) -> Wanted:
    """Return the request with the queue manager that the alias names."""
    named = replace(wanted.descriptor, queue_manager=manager_alias.attributes.remote_queue_manager)
    if named.queue_manager == state.name and wanted.options & _LOCAL_USES:  # rc2045
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "A queue manager alias is for puts only")
    return replace(wanted, descriptor=named)


def _check_queue_manager(state: QueueManagerState, wanted: Wanted) -> None:
    is_local = wanted.descriptor.queue_manager in {"", state.name}
    if not is_local and wanted.descriptor.object_type != ObjectType.Q:
        # rc2045, for all types but topics. No page of IBM at hand for the reason with topics.
        is_topic = wanted.descriptor.object_type == ObjectType.TOPIC
        reason = Reason.UNKNOWN_OBJECT_Q_MGR if is_topic else Reason.OPTION_NOT_VALID_FOR_TYPE
        raise Refusal(reason, f"Only queues can belong to another queue manager than {state.name}")
    if wanted.descriptor.object_type == ObjectType.Q_MGR:
        if wanted.descriptor.name not in {"", state.name}:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"This queue manager is {state.name}")
        return
    if wanted.descriptor.object_type == ObjectType.TOPIC and not wanted.descriptor.name:
        return
    if not is_object_name(wanted.descriptor.name):
        raise Refusal(Reason.OBJECT_NAME_ERROR, f"{wanted.descriptor.name!r} is not a name of an object")
    if is_local:
        return
    if not is_object_name(wanted.descriptor.queue_manager):
        raise Refusal(Reason.UNKNOWN_OBJECT_Q_MGR, f"{wanted.descriptor.queue_manager!r} is not a name of a queue manager")
    if wanted.options & _LOCAL_USES:
        raise Refusal(Reason.UNKNOWN_OBJECT_Q_MGR, f"{wanted.descriptor.queue_manager} is not {state.name}")


def _attach(state: QueueManagerState, handle: ObjectHandle, wanted: Wanted) -> None:
    elsewhere, manager_alias = wanted.descriptor.queue_manager, handle.manager_alias
    if elsewhere not in {"", state.name}:
        through = "" if manager_alias is None else manager_alias.attributes.transmission_queue
        queue = state.transmission_queue(through, elsewhere)
        # UNCERTAIN, from memory: IBM's default checks the transmission queue (ClusterQueueAccessControl of qm.ini).
        _check_authority(state, handle.connection, replace(wanted, descriptor=replace(wanted.descriptor, name=queue.name)))
        _transmit(handle, queue, (wanted.descriptor.name, elsewhere))
        return
    found = state.queues.get(wanted.descriptor.name)
    if found is None:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
    _check_authority(state, handle.connection, wanted)
    if isinstance(found, QueueDefinition) and (remote := remote_definition(state, found)) is not None:
        _attach_remote(state, handle, found, remote)
        return
    if isinstance(found, QueueDefinition) and found.attributes.kind is QueueType.MODEL:
        if wanted.for_one_put or manager_alias is not None:  # rc2057
            detail = "It is a model: open it without a queue manager alias, and put to the queue that the open creates"
            raise Refusal(Reason.Q_TYPE_ERROR, detail)
        queue = _dynamic(state, found, wanted.descriptor.dynamic_name, handle.connection.user)
        handle.name = queue.name
        handle.creator = True
    elif isinstance(found, QueueDefinition) and found.attributes.target_type == _TOPIC_TARGET:
        check_open_options(wanted.options, ObjectType.TOPIC)
        _attach_topic(state, handle, found.attributes.target, wanted)
        _record_definition(handle, found)
        return
    else:
        queue = found if isinstance(found, LocalQueue) else state.target_of(found.attributes)
    _check_sharing(queue, handle)
    queue.handles.add(handle)
    if handle.selector is not None:
        queue.selecting.append(handle)
    if handle.bits & INPUT and state.watcher is not None:
        state.watcher.opened(queue)
    handle.queue = queue
    handle.seen_changes = queue.changes
    if isinstance(found, QueueDefinition) and not handle.creator:
        _record_definition(handle, found)


def _attach_remote(state: QueueManagerState, handle: ObjectHandle, first: QueueDefinition, through: QueueDefinition) -> None:
    """Attach the handle to the opened name, to the definition of the remote queue, and for OUTPUT to the transmission queue.

    The opened name is `first`. It is the definition itself, or an alias of the definition.
    """
    if handle.bits & (INPUT | OpenOption.BROWSE):
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "A remote queue can be opened for OUTPUT, INQUIRE and SET only")
    if handle.bits & OpenOption.OUTPUT:
        _transmit(handle, *transmission_of(state, through.attributes))
    _record_definition(handle, first)
    if through is not first:
        through.handles.add(handle)
        handle.through = through
        handle.seen_changes += through.changes


def _record_definition(handle: ObjectHandle, opened: QueueDefinition) -> None:
    """Record the alias or remote queue definition by which the handle was opened."""
    opened.handles.add(handle)
    handle.alias = opened
    handle.seen_changes += opened.changes


def _transmit(handle: ObjectHandle, queue: LocalQueue, to: tuple[str, str]) -> None:
    """Attach the handle to a transmission queue. `to` is the remote queue and the remote queue manager."""
    queue.handles.add(handle)
    handle.queue, handle.remote = queue, to
    handle.seen_changes = queue.changes


def _attach_topic(state: QueueManagerState, handle: ObjectHandle, object_name: str, wanted: Wanted) -> None:
    """Attach the handle to the topic. Each put with this handle then publishes on the topic."""
    handle.topic = topic_string_of(state, object_name, wanted.descriptor.object_string)
    user = handle.connection.user
    publisher = wanted.descriptor.alternate_user if wanted.options & OpenOption.ALTERNATE_USER_AUTHORITY else user
    if wanted.descriptor.object_type != ObjectType.TOPIC:  # an alias: the caller has checked the authority on the alias itself
        check_topic_authority(state, publisher, handle.topic, Authority.PUB)
        return
    for need in needed_to_open(object_name, wanted.options, ObjectType.TOPIC):
        if need.kind is AuthorityKind.QMGR:
            state.authorities.check(user, (need,))
        else:
            check_topic_authority(state, user if need.own else publisher, handle.topic, need.authority)


def _check_authority(state: QueueManagerState, connection: ConnectionState, wanted: Wanted) -> None:
    """Refuse with 2035 a user without authority on the opened name. Only this name counts, also for an alias or a model."""
    if state.authorities.checked and not wanted.trusted:
        alternate = wanted.descriptor.alternate_user if wanted.options & OpenOption.ALTERNATE_USER_AUTHORITY else None
        needs = needed_to_open(wanted.descriptor.name, wanted.options, wanted.descriptor.object_type)
        state.authorities.check(connection.user, needs, alternate)


def _check_sharing(queue: LocalQueue, handle: ObjectHandle) -> None:
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


def _dynamic(state: QueueManagerState, model: QueueDefinition, wanted: str, user: str) -> LocalQueue:
    name = dynamic_queue_name(wanted, state.identifiers.number())
    if name in state.queues:
        raise Refusal(Reason.OBJECT_ALREADY_EXISTS, f"The dynamic queue would have the name {name}")
    made = replace(model.attributes, name=name, kind=QueueType.LOCAL, creation_date="", creation_time="")
    attributes = state.dated(made)
    queue = LocalQueue(attributes)
    queue.statistics.reset_at = state.clock.monotonic()
    state.queues[name] = queue
    if attributes.trigger:
        state.triggers_changed()
    if attributes.definition_type == TEMPORARY_DYNAMIC:
        state.authorities.creators[name] = user
    else:
        state.store.write((QueueDefined(attributes), *give_to_creator(state, name, user)), None)
    return queue


def _deletes(options: CloseOption) -> bool:
    """True if the close options ask for the deletion of the queue. Refuses invalid options."""
    if not options:
        return False
    if options & ~(CloseOption.DELETE | CloseOption.DELETE_PURGE):
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, f"{option_names(options)} is for subscriptions")
    if options == CloseOption.DELETE | CloseOption.DELETE_PURGE:
        raise Refusal(Reason.OPTIONS_ERROR, "DELETE and DELETE_PURGE exclude each other")
    return True


def _check_delete(state: QueueManagerState, handle: ObjectHandle, options: CloseOption) -> None:
    queue = handle.queue
    if queue is None or queue.attributes.definition_type not in {PERMANENT_DYNAMIC, TEMPORARY_DYNAMIC}:
        raise Refusal(Reason.OPTION_NOT_VALID_FOR_TYPE, "Only a dynamic queue can be deleted by closing it")
    if queue.attributes.definition_type == TEMPORARY_DYNAMIC:
        if not handle.creator:
            raise Refusal(
                Reason.OPTION_NOT_VALID_FOR_TYPE,
                "A temporary queue is deleted with the handle that created it; this is another handle",
            )
        return
    if not handle.creator:
        state.authorities.check(handle.connection.user, (Need(AuthorityKind.QUEUE, queue.name, Authority.DLT, own=True),))
    if queue.uncommitted:
        raise Refusal(Reason.Q_NOT_EMPTY, f"{queue.uncommitted} puts and gets on it are not committed")
    if queue.available and not options & CloseOption.DELETE_PURGE:
        raise Refusal(Reason.Q_NOT_EMPTY, f"{queue.depth} messages are on it")
