"""The administration of queues and of the queue manager: define, alter, delete, clear and show.

This file writes the `changes` count of a queue, and the attributes of the queue manager.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import asdict

from mqflow.embedded.administration.authorities import AuthorityDefinitions
from mqflow.embedded.administration.channels import ChannelDefinitions, RunningChannels
from mqflow.embedded.administration.interface import HandleStatus, QueueManagerStatus, QueueStatistics, QueueStatus
from mqflow.embedded.administration.objects import ObjectDefinitions
from mqflow.embedded.administration.topics import TopicDefinitions
from mqflow.embedded.calls.event_messages import mqsc_event
from mqflow.embedded.calls.open import delete_queue, drop_queue, empty, input_handles, output_handles, put_back, stored_serials
from mqflow.embedded.calls.pending_answer import Pending, carry_out
from mqflow.embedded.calls.queue_attributes import attributes_now, change_queue, reset_statistics, with_changes
from mqflow.embedded.catalogue.system_objects import STAGING_QUEUE
from mqflow.embedded.rules.open_options import INPUT
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, QueueDefinition
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.storage.store import QueueCleared, QueueDefined, QueueManagerDefined
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.ccsid import is_known
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason

__all__ = ("Definitions",)

# Plain numbers: an operation with an OpenOption costs about ten times as much.
_EXCLUSIVE: Final = int(OpenOption.INPUT_EXCLUSIVE)
_BROWSE: Final = int(OpenOption.BROWSE)
_INQUIRE: Final = int(OpenOption.INQUIRE)
_OUTPUT: Final = int(OpenOption.OUTPUT)
_SET: Final = int(OpenOption.SET)


class Definitions:
    """`Administration` of one queue manager. `user` is the user of the command events."""

    def __init__(self, state: QueueManagerState, running: RunningChannels, user: str) -> None:
        self._state = state
        self._running = running
        self._user = user

    @property
    def channels(self) -> ChannelDefinitions:
        """The running channels and listeners, and the channel authentication records."""
        return ChannelDefinitions(self._state, self._running)

    @property
    def authorities(self) -> AuthorityDefinitions:
        """The authority records."""
        return AuthorityDefinitions(self._state)

    @property
    def publishing(self) -> TopicDefinitions:
        """Topics and subscriptions."""
        return TopicDefinitions(self._state, self._state.authorities.owner)

    @property
    def queue_manager(self) -> QueueManagerAttributes:
        """The queue manager's attributes."""
        return self._state.attributes

    def queues(self) -> tuple[QueueAttributes, ...]:
        """Return the queues of every kind, sorted by name, with their present depth and open counts."""
        with self._state.lock:
            return tuple(attributes_now(self._state.queues[name]) for name in sorted(self._state.queues))

    def queue(self, name: str) -> QueueAttributes | None:
        """Return the queue of this name, or None."""
        with self._state.lock:
            found = self._state.queues.get(name)
            return None if found is None else attributes_now(found)

    def define(self, attributes: QueueAttributes, *, replace: bool = False) -> None:
        """Define a queue. If the name is taken, raises 2100 without `replace`, and 2043 with `replace` and another kind."""
        carry_out(self._state, "DEFINE", attributes.name, lambda: self._define(attributes, replacing=replace))

    def alter(self, name: str, changes: Mapping[str, object], *, force: bool = False) -> None:
        """Change attributes of a queue. Without `force`, raises 2042 if the change affects open handles."""
        carry_out(self._state, "ALTER", name, lambda: self._alter(self._known(name), changes, force=force))

    def delete(self, name: str, *, purge: bool = False, keep_authorities: bool = False) -> None:
        """Delete a queue. Raises 2042 while the queue is open, and 2055 while it has uncommitted puts or gets."""
        begin = partial(self._delete, purge=purge, keep_authorities=keep_authorities)
        carry_out(self._state, "DELETE", name, lambda: begin(self._known(name)))

    def clear(self, name: str) -> None:
        """Delete every message of a local queue. Raises 2042 while the queue is open or has uncommitted puts or gets."""
        carry_out(self._state, "CLEAR", name, lambda: self._clear(self._local(name)))

    def alter_queue_manager(self, changes: Mapping[str, object]) -> None:
        """Change attributes of the queue manager. Raises 2319 for an invalid value, also for an unknown CCSID."""
        carry_out(self._state, "ALTER QMGR", "", lambda: self._alter_queue_manager(changes))

    def queue_status(self, name: str) -> QueueStatus:
        """Return the status of a local queue. Raises 2085 if the queue does not exist."""
        try:
            with self._state.lock:
                return _status(self._state, self._local(name))
        except Refusal as refusal:
            raise refusal.on("DISPLAY QSTATUS", name, self._state.name) from None

    def reset_queue_statistics(self, name: str) -> QueueStatistics:
        """Return the counts of a local queue, and set them to 0. Raises 2085 if the queue does not exist."""
        try:
            with self._state.lock:
                counted = reset_statistics(self._state, self._local(name))
                since_reset_s = int(self._state.clock.monotonic() - counted.reset_at)
        except Refusal as refusal:
            raise refusal.on("RESET QSTATS", name, self._state.name) from None
        return QueueStatistics(
            name=name,
            enqueued=counted.enqueued,
            dequeued=counted.dequeued,
            high_depth=counted.high_depth,
            since_reset_s=since_reset_s,
        )

    @property
    def status(self) -> QueueManagerStatus:
        """The status of the queue manager."""
        state = self._state
        with state.lock:
            date, time = state.as_text(state.started_at)
            return QueueManagerStatus(
                name=state.name,
                status=_QUIESCING if state.quiescing else _RUNNING,
                connection_count=len(state.connections | state.system_connections),
                started_date=date,
                started_time=time,
            )

    def report_command(self, text: str, *, shows: bool) -> None:
        """Put the command event of a successful MQSC command if CMDEV requires it. Set `shows` for a DISPLAY command."""
        with self._state.lock:
            mqsc_event(self._state, text, self._user, shows=shows)

    @property
    def objects(self) -> ObjectDefinitions:
        """Objects other than queues and topics, and the connections."""
        return ObjectDefinitions(self._state)

    def _known(self, name: str) -> LocalQueue | QueueDefinition:
        found = self._state.queues.get(name)
        if found is None:
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME)
        return found

    def _local(self, name: str) -> LocalQueue:
        found = self._known(name)
        if not isinstance(found, LocalQueue):
            raise Refusal(Reason.Q_TYPE_ERROR, f"It is {found.attributes.kind.name.lower()}, not a local queue")
        return found

    def _define(self, attributes: QueueAttributes, *, replacing: bool) -> Pending[None]:
        state, name = self._state, attributes.name
        if not is_object_name(name):
            raise Refusal(Reason.OBJECT_NAME_ERROR, f"{name!r} is not a name of an object")
        defined = with_changes(attributes, asdict(attributes) | {"depth": 0, "open_input_count": 0, "open_output_count": 0})
        known = state.queues.get(name)
        if known is None:
            made = state.define(state.dated(defined))
            return Pending(None, changes=(QueueDefined(made.attributes),), undo=(partial(self._undefine, made),))
        kind = known.attributes.kind.name.lower()
        if not replacing:
            raise Refusal(Reason.OBJECT_ALREADY_EXISTS, f"It is defined as {kind}")
        if known.attributes.kind != defined.kind:
            raise Refusal(Reason.OBJECT_TYPE_ERROR, f"It is defined as {kind}, and REPLACE keeps the kind: delete it first")
        # A dynamic queue keeps its definition type. getattr: the field names come from the table.
        settable = (spec.field for spec in QUEUE_ATTRIBUTES if defined.kind in spec.kinds and not spec.read_only)
        return self._alter(known, {field: getattr(defined, field) for field in settable}, force=False)

    def _undefine(self, made: LocalQueue | QueueDefinition) -> None:
        if isinstance(made, LocalQueue):  # a put by a program that has opened it meanwhile must not reach the store
            drop_queue(self._state, made)
        else:
            del self._state.queues[made.attributes.name]

    def _alter(self, queue: LocalQueue | QueueDefinition, changes: Mapping[str, object], *, force: bool) -> Pending[None]:
        if "name" in changes or "kind" in changes:
            raise Refusal(Reason.SELECTOR_ERROR, "Name and kind of a queue cannot be altered")
        keyword = _keyword_in_use(queue, changes)
        if keyword:
            if not force:
                detail = f"{_handles(queue)}. ALTER ... FORCE changes {keyword}; the next call on each handle then gets 2041"
                raise Refusal(Reason.OBJECT_IN_USE, detail)
            with_changes(queue.attributes, changes)  # raises if a value is invalid, before the open handles become invalid
            _count_change(queue, 1)
        pending = change_queue(self._state, queue, changes)
        return pending.undone_by(partial(_count_change, queue, -1)) if keyword else pending

    def _delete(self, queue: LocalQueue | QueueDefinition, *, purge: bool, keep_authorities: bool) -> Pending[None]:
        if queue.handles:
            raise Refusal(Reason.OBJECT_IN_USE, f"{_handles(queue)}. End them, or wait until they close it")
        if isinstance(queue, LocalQueue):
            if queue.uncommitted:
                raise Refusal(Reason.Q_NOT_EMPTY, _uncommitted(queue))
            if queue.available and not purge:
                raise Refusal(Reason.Q_NOT_EMPTY, f"{queue.depth} messages are on it")
        return delete_queue(self._state, queue, keep_authorities=keep_authorities)

    def _clear(self, queue: LocalQueue) -> Pending[None]:
        if queue.handles:
            raise Refusal(Reason.OBJECT_IN_USE, f"{_handles(queue)}. End them, or wait until they close it")
        if queue.uncommitted:
            raise Refusal(Reason.OBJECT_IN_USE, _uncommitted(queue))
        emptied = empty(self._state, queue)
        change = QueueCleared(queue.name, stored_serials(queue, emptied))
        return Pending(None, changes=(change,), undo=(partial(put_back, queue, emptied),), then=partial(self._cleared, queue))

    def _cleared(self, queue: LocalQueue) -> None:
        """Process the performance events of a CLEAR, which counts as a get (IBM, queue service interval events)."""
        if self._state.attributes.performance_event and self._state.watcher is not None:
            self._state.watcher.got(queue)
            self._state.watcher.fell(queue)

    def _alter_queue_manager(self, changes: Mapping[str, object]) -> Pending[None]:
        state, before = self._state, self._state.attributes
        ccsid = changes.get("ccsid", before.ccsid)
        if isinstance(ccsid, int) and ccsid != before.ccsid and not is_known(ccsid):
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"CCSID {ccsid} is not known here; 1208 is UTF-8")
        date, time = state.now_as_text()
        state.attributes = with_changes(before, {**changes, "alteration_date": date, "alteration_time": time})

        def undo() -> None:
            state.attributes = before

        return Pending(None, changes=(QueueManagerDefined(state.attributes),), undo=(undo,))


# MQQMSTA_*.
_RUNNING, _QUIESCING = 2, 3
_RESOLVED = frozenset({"target", "target_type", "remote_queue", "remote_queue_manager", "transmission_queue"})


def _count_change(queue: LocalQueue | QueueDefinition, count: int) -> None:
    """Make the open handles invalid, because of an ALTER with FORCE. If `count` is -1, make them valid again."""
    queue.changes += count
    for handle in queue.handles:
        if handle.manager_alias is queue:  # no call reads the changes of this definition
            handle.seen_changes -= count


def _handles(queue: LocalQueue | QueueDefinition) -> str:
    """Return a clause that says how often the queue is open and, for a definition, the command that shows the applications."""
    clause = f"Applications have it open ({len(queue.handles)} handles)"
    if isinstance(queue, LocalQueue):
        return clause  # the advice for the reason names DISPLAY QSTATUS
    opened = min(handle.name for handle in queue.handles)  # a remote queue can be open through an alias
    return f"{clause}: DISPLAY CONN(*) TYPE(HANDLE) WHERE(OBJNAME EQ '{opened}') shows their connections"


def _uncommitted(queue: LocalQueue) -> str:
    who = "DISPLAY CONN(*) WHERE(UOWSTATE EQ ACTIVE) APPLTAG shows the applications with a unit of work"
    return f"{queue.uncommitted} puts and gets on it are not committed: wait for the units of work. {who}"


def _keyword_in_use(queue: LocalQueue | QueueDefinition, changes: Mapping[str, object]) -> str:
    """Return the keyword of a changed attribute that open handles depend on, or an empty string."""
    now = queue.attributes
    if isinstance(queue, QueueDefinition):
        before = asdict(now)
        touched = [
            spec.keyword
            for spec in QUEUE_ATTRIBUTES
            if spec.field in _RESOLVED and changes.get(spec.field, before[spec.field]) != before[spec.field]
        ]
        return touched[0] if touched and queue.handles else ""
    if now.shareable and not changes.get("shareable", True) and len(input_handles(queue)) > 1:
        return "SHARE"
    return "USAGE" if queue.handles and changes.get("usage", now.usage) != now.usage else ""


def _status(state: QueueManagerState, queue: LocalQueue) -> QueueStatus:
    oldest = _oldest_put_at(queue)
    put_date, put_time = state.as_text(queue.last_put_at)
    get_date, get_time = state.as_text(queue.last_get_at)
    return QueueStatus(
        name=queue.name,
        depth=queue.depth,
        open_input_count=len(input_handles(queue)),
        open_output_count=len(output_handles(queue)),
        uncommitted=queue.uncommitted,
        oldest_message_age_s=None if oldest is None else max(0, int(state.clock.wall() - oldest)),
        last_put_date=put_date,
        last_put_time=put_time,
        last_get_date=get_date,
        last_get_time=get_time,
        handles=tuple(_handle_status(handle) for handle in queue.handles),
    )


def _oldest_put_at(queue: LocalQueue) -> float | None:
    # The first message of the staging queue is the next to become due, so `oldest` does not find the oldest put.
    oldest = queue.oldest_of_all() if queue.name == STAGING_QUEUE else queue.oldest()
    return None if oldest is None else oldest.put_at


def _handle_status(handle: ObjectHandle) -> HandleStatus:
    bits = handle.bits
    exclusive = bits & _EXCLUSIVE
    return HandleStatus(
        application=handle.connection.application_name,
        user=handle.connection.user,
        connection=handle.connection.identifier,
        address=handle.connection.address,
        input_mode=("EXCL" if exclusive else "SHARED") if bits & INPUT else "NO",
        browse=bool(bits & _BROWSE),
        inquire=bool(bits & _INQUIRE),
        output=bool(bits & _OUTPUT),
        set=bool(bits & _SET),
    )
