"""Operations that need several verbs, over any connection: units of messages, inquiries, puts that lose no message.

The operations use only the verbs of `Connection`. A `BatchConnection` does some operations in fewer steps, with its own verbs.
This file knows no queue manager, no thread and no event loop.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import cast

from msgspec.structs import replace

from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QueueAttributes, queue_attributes_from
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES, QueueManagerAttributes, queue_manager_attributes_from
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, GetOption, ObjectType, OpenOption, PutOption, QueueType
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.message_group import ends_group
from mqflow.policy.reconnect.reason_classes import connection_gone, needs_reconnect
from mqflow.verbs import (
    UNIT_BYTES_MAX,
    AbandonableConnection,
    BatchConnection,
    Connection,
    GetOptions,
    Got,
    ManyPut,
    ObjectDescriptor,
    ObjectHandle,
    Put,
    object_descriptor,
)

__all__ = (
    "current_depth",
    "disconnect_without_commit",
    "ends_unit",
    "following",
    "get_many",
    "inquire_base_queue",
    "inquire_dead_letter_queue",
    "inquire_identifier",
    "inquire_queue_manager",
    "leads_back",
    "model_refused",
    "open_to_put",
    "put_many",
    "put_somewhere",
    "take_unit",
    "without_wait",
)

_IN_LOGICAL_ORDER = int(GetOption.LOGICAL_ORDER)
_CURRENT_Q_DEPTH = 3
"""MQIA_CURRENT_Q_DEPTH."""
_BROWSES = GetOption.BROWSE_FIRST | GetOption.BROWSE_NEXT | GetOption.BROWSE_MSG_UNDER_CURSOR
# New in IBM MQ 9.1 to 9.3, and not needed here. A queue manager refuses all selectors if it does not know one (2067).
_RECENT = frozenset({"streaming_queue", "streaming_quality", "image_recover", "max_file_megabytes"})
_QUEUE_SELECTORS = tuple(
    spec.selector for spec in QUEUE_ATTRIBUTES if spec.selector and QueueType.LOCAL in spec.kinds and spec.field not in _RECENT
)
# Only the attributes that an application uses and that every level of IBM MQ knows, for the same reason.
_OF_QUEUE_MANAGERS = frozenset(
    {
        *("identifier", "description", "dead_letter_queue", "max_message_bytes", "max_handles", "max_priority", "ccsid"),
        *("max_uncommitted_messages", "mark_browse_interval_ms", "trigger_interval_ms", "default_transmission_queue"),
        *("command_input_queue", "platform", "command_level", "syncpoint_available"),
    }
)
_QUEUE_MANAGER_SELECTORS = tuple(spec.selector for spec in QUEUE_MANAGER_ATTRIBUTES if spec.field in _OF_QUEUE_MANAGERS)


def get_many(connection: Connection, handle: ObjectHandle, options: GetOptions, most: int) -> list[Got]:
    """Get up to `most` messages over any connection, as `BatchConnection.get_many` does."""
    if (batch := _batch(connection)) is not None:
        return batch.get_many(handle, options, most)
    first = connection.get(handle, options)
    return [] if first is None else take_unit(connection, handle, [first], following(options), most)


def put_many(
    connection: Connection,
    handle: ObjectHandle,
    messages: Sequence[tuple[MessageDescriptor, bytes]],
    options: PutOption,
    *,
    context: ObjectHandle | None = None,
) -> ManyPut:
    """Put the messages over any connection, as `BatchConnection.put_many` does."""
    if (batch := _batch(connection)) is not None:
        return batch.put_many(handle, messages, options, context=context)
    puts: list[Put] = []
    try:
        for descriptor, body in messages:
            puts.append(connection.put(handle, descriptor, body, options, context=context))
    except MQIError as error:
        return ManyPut(tuple(puts), error)
    return ManyPut(tuple(puts))


def take_unit(connection: Connection, handle: ObjectHandle, unit: list[Got], options: GetOptions, most: int) -> list[Got]:
    """Add more messages that need no wait to the unit, up to `most`, and return the unit. It has its first messages already.

    A redelivered message comes alone, or as the last. A refused get also ends the unit, and the next get returns the same
    refusal. Raises `MQIError` if the connection is lost and the messages were got under syncpoint; then the unit has the
    messages so far. Messages that were got without syncpoint are off their queue, so the function returns them.
    """
    if len(unit) < most and not ends_unit(unit[-1], options):
        try:
            _fill(connection, handle, unit, options, most)
        except MQIError as error:
            if options.options & GetOption.SYNCPOINT and needs_reconnect(error):
                raise
    return unit


def leads_back(target: ObjectHandle, source: ObjectHandle, queue: str = "") -> bool:
    """Return whether a put to the target reaches the queue that the source gets from.

    `queue` is the name of the queue of the source; by default it is the name that the open of the source resolved.
    A queue of the same name on another queue manager is another queue. If the queue manager is unknown, returns True, because
    a message that is moved from a queue to itself comes back for ever.
    """
    managers = {target.resolved_queue_manager, source.resolved_queue_manager} - {""}
    return target.resolved_queue == (queue or source.resolved_queue) and len(managers) <= 1


def ends_unit(got: Got, options: GetOptions) -> bool:
    """Return whether this message must be the last of its call.

    A redelivered message must be the last, so that its failure backs out no other message. A message that is too long (2080)
    must be the last too. It stays on its queue, so each further get of the call would return it again. In logical order, a unit
    of work has one group: the last message of the group is the last of its call.
    """
    if got.reason == Reason.TRUNCATED_MSG_FAILED:
        return True
    ends = int(options.options) & _IN_LOGICAL_ORDER and ends_group(got.descriptor.message_flags)
    return bool(ends or got.descriptor.backout_count > 0) and not options.options & _BROWSES


@lru_cache(maxsize=64)  # a queue manager can keep a plan for each record, so equal options must be the same record
def without_wait(options: GetOptions) -> GetOptions:
    """Return the same options for a get that does not wait."""
    return replace(options, options=options.options & ~GetOption.WAIT) if options.options & GetOption.WAIT else options


@lru_cache(maxsize=64)
def following(options: GetOptions) -> GetOptions:
    """Return the options of the later gets of a call: they do not wait, and browse the next message."""
    at_once = without_wait(options)
    if not options.options & GetOption.BROWSE_FIRST:
        return at_once
    return replace(at_once, options=at_once.options & ~GetOption.BROWSE_FIRST | GetOption.BROWSE_NEXT)


def open_to_put(connection: Connection, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
    """Return a handle on a queue that keeps its messages when the handle is closed.

    Raises the errors of MQOPEN. Like MQPUT1, raises 2057 for a model queue: its temporary queue would end with the handle.
    """
    handle = connection.open(target, options)
    name = object_descriptor(target).name
    if handle.name == name:
        return handle
    with suppress(MQIError):
        connection.close(handle, CloseOption.DELETE)
    raise model_refused(name, connection.queue_manager_name)


def put_somewhere(
    connection: Connection,
    handle: ObjectHandle,
    descriptor: MessageDescriptor,
    body: bytes,
    options: PutOption,
    *,
    context: ObjectHandle | None = None,
) -> Put:
    """Put a message that must reach a queue, because the caller then removes the original from another queue.

    Raises the errors of MQPUT, and 2550 if the handle is open on the alias of a topic without subscribers.
    """
    if handle.resolved_queue:
        return connection.put(handle, descriptor, body, options, context=context)
    put = connection.put(handle, descriptor, body, options | PutOption.WARN_IF_NO_SUBS_MATCHED, context=context)
    if put.reason == Reason.NO_SUBS_MATCHED:
        said = "The queue is the alias of a topic without subscribers: the message would be lost"
        raise error_for(Reason.NO_SUBS_MATCHED, "MQPUT", handle.name, connection.queue_manager_name, said)
    return put


def disconnect_without_commit(connection: Connection) -> None:
    """Back out and disconnect: MQDISC alone commits an open unit of work (q101800). Raises nothing.

    If the backout is refused and the connection may be alive, the function does not disconnect. The connection then ends like
    the connection of a dead process: immediately if it is an `AbandonableConnection`, otherwise with this process.
    """
    try:
        connection.backout()
    except MQIError as error:
        if not connection_gone(int(error.reason)):
            if isinstance(connection, AbandonableConnection):
                connection.abandon()
            return
    with suppress(MQIError):  # if the connection is gone, its queue manager backs the unit of work out
        connection.disconnect()


def model_refused(name: str, queue_manager: str) -> MQIError:
    """Return the error of a put to a model queue."""
    said = "It is a model queue: a message on the queue that it makes would be lost with that queue"
    return error_for(Reason.Q_TYPE_ERROR, "MQOPEN", name, queue_manager, said)


def current_depth(connection: Connection, queue: str) -> int:
    """Return the number of messages on the queue. Raises the errors of MQOPEN and MQINQ."""
    handle = connection.open(queue, OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING)
    try:
        return int(connection.inquire(handle, (_CURRENT_Q_DEPTH,)).values[_CURRENT_Q_DEPTH])
    finally:
        connection.close(handle)


def inquire_base_queue(connection: Connection, name: str) -> QueueAttributes:
    """Return the attributes of the local queue of this name; for an alias, the attributes of its target queue.

    Needs inquire authority on the local queue and, if `name` is an alias, on the alias too. A caller that has the alias open
    can give `ObjectHandle.resolved_queue` as the name, and needs no such authority on the alias. Closes the queue again.
    Source: IBM q032280: "Open the local queue, or the target queue for an alias queue", MQOO_INQUIRE and FAIL_IF_QUIESCING.
    """
    options = OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING
    alias = {spec.field: spec.selector for spec in QUEUE_ATTRIBUTES}
    for _ in range(2):  # an alias cannot name another alias, so two opens are enough
        handle = connection.open(name, options)
        try:
            kind = connection.inquire(handle, (alias["kind"],)).values[alias["kind"]]
            if kind != QueueType.ALIAS:
                return queue_attributes_from(name, _known(connection, handle, _QUEUE_SELECTORS))
            name = str(connection.inquire(handle, (alias["target"],)).values[alias["target"]]).rstrip()
        finally:
            connection.close(handle)
    raise MQIError(Reason.ALIAS_BASE_Q_TYPE_ERROR, "MQINQ", name, connection.queue_manager_name)


def inquire_queue_manager(connection: Connection) -> QueueManagerAttributes:
    """Return the attributes of the queue manager, such as DEADQ."""
    queue_manager = ObjectDescriptor(object_type=ObjectType.Q_MGR)
    handle = connection.open(queue_manager, OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING)
    try:
        values = _known(connection, handle, _QUEUE_MANAGER_SELECTORS)
    finally:
        connection.close(handle)
    return queue_manager_attributes_from(connection.queue_manager_name, values)


def inquire_identifier(connection: Connection) -> str:
    """Return the identifier of the queue manager (QMID); "" if it is unknown, or if the user may not inquire it.

    Without an identifier, callers can compare only names. Raises the `MQIError` of a lost connection.
    """
    try:
        return inquire_queue_manager(connection).identifier
    except MQIError as error:
        if needs_reconnect(error):
            raise
        return ""


def inquire_dead_letter_queue(connection: Connection) -> tuple[str, MQIError | None]:
    """Return DEADQ, and None. If the user may not inquire the queue manager (2035), return "" and that error.

    Raises `MQIError` for any other refusal, because a later inquiry can succeed.
    """
    try:
        return inquire_queue_manager(connection).dead_letter_queue, None
    except MQIError as error:
        if error.reason != Reason.NOT_AUTHORIZED:
            raise
        return "", error


def _batch(connection: Connection) -> BatchConnection | None:
    """Return the connection itself if it has the verbs for many messages."""
    # `isinstance` looks up every verb of the protocol on every call; one verb is enough to decide.
    return cast("BatchConnection", connection) if hasattr(connection, "get_many") else None


def _fill(connection: Connection, handle: ObjectHandle, unit: list[Got], options: GetOptions, most: int) -> None:
    left_bytes = UNIT_BYTES_MAX - len(unit[-1].body)
    batch = _batch(connection)
    if batch is not None and left_bytes > 0:  # without room, `get_many` would still return one message
        unit += batch.get_many(handle, options, most - len(unit), bytes_max=left_bytes)
        return
    get = connection.get
    while len(unit) < most and left_bytes > 0:
        got = get(handle, options)
        if got is None:
            return
        unit.append(got)
        left_bytes -= len(got.body)
        if ends_unit(got, options):
            return


def _known(connection: Connection, handle: ObjectHandle, selectors: Sequence[int]) -> Mapping[int, int | str]:
    """Return the attributes that this queue manager knows.

    An older queue manager refuses all selectors if it does not know one of them (2067). Then the function inquires one
    selector at a time.
    """
    try:
        return connection.inquire(handle, selectors).values
    except MQIError as error:
        if error.reason != Reason.SELECTOR_ERROR or len(selectors) == 1:
            raise
    found: dict[int, int | str] = {}
    for selector in selectors:
        try:
            found.update(connection.inquire(handle, (selector,)).values)
        except MQIError as error:
            if error.reason != Reason.SELECTOR_ERROR:
                raise
    return found
