"""The records of the queue manager that refer to each other: connections, handles, queues, subscriptions, units of work.

They are in one file because each record names another record. This file has only state. The steps in `calls` change the
state, under the lock:
- `LocalQueue`: `open` writes the handles, `selecting` and `deleted`. `browse` writes the locks and the marks; `wait` writes the
  waiters. `enqueue` and `get` write the times of the last put and get. `queue_attributes` writes the attributes;
  `administration` writes `changes`.
- `ObjectHandle`: `open` writes the opened object. `get`, `get_many` and `browse` write the cursor, the lock, the marks and the
  saved context. `groups` writes the positions in `logical`; `wait` writes the waiter; the connection writes the last options
  and the trail of a browse.
- `Subscription` and `SubscriptionHandle`: `subscribe` and `administration` write them.
- `UnitOfWork`: its own methods write it, and `settle` ends it.
- `ConnectionState`: the connection, `units_ahead` and `end` write it.
"""

import logging
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, field

from mqflow.embedded.rules.get_plan import GetPlan, Match, matches
from mqflow.embedded.rules.group_order import Retained
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import BEFORE_FIRST, Backlog, Emptied, Pages, QueuedMessage
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import ApplicationType, ObjectType, OpenOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.selectors.selector import STORED_DEPTH_MAX, Selector, SelectorError, compile_selector
from mqflow.mqi.subscription import RetainedPublication, SubscriptionAttributes
from mqflow.mqi.topic_strings import Scheme, has_wildcards
from mqflow.mqi.topic_strings import matches as topic_matches
from mqflow.verbs import GetOptions

__all__ = (
    "ConnectionState",
    "LocalQueue",
    "ObjectHandle",
    "QueueDefinition",
    "Statistics",
    "Subscription",
    "SubscriptionHandle",
    "UnitAhead",
    "UnitOfWork",
    "Waiter",
)

_logger: Final = logging.getLogger("mqflow")


class Statistics:
    """The counts of a queue since its last reset. A backout lowers none of them (IBM q088310)."""

    __slots__ = (
        "dequeued", "dequeued_before", "enqueued", "enqueued_before", "got_bytes", "high_depth", "put_bytes", "reset_at",
        "served_since",
    )  # fmt: skip

    def __init__(self, reset_at: float = 0.0, high_depth: int = 0, before: "Statistics | None" = None) -> None:
        #: The number of messages that were put (`enqueued`) and got (`dequeued`).
        self.enqueued: int = 0
        self.dequeued: int = 0
        #: The number of messages before the last reset, and the bytes of all messages since the queue was defined or loaded.
        self.enqueued_before: int = before.enqueued_before + before.enqueued if before else 0
        self.dequeued_before: int = before.dequeued_before + before.dequeued if before else 0
        self.put_bytes: int = before.put_bytes if before else 0
        self.got_bytes: int = before.got_bytes if before else 0
        #: The highest CURDEPTH.
        self.high_depth: int = high_depth
        #: The monotonic time of the reset.
        self.reset_at: float = reset_at
        #: The monotonic time at which the service interval timer started; None while the timer is off.
        self.served_since: float | None = before.served_since if before else None

    def give_back(self, body_bytes: int) -> None:
        """Count one message less as got, because it was given back. The get can have been before the last reset."""
        self.got_bytes -= body_bytes
        if self.dequeued:
            self.dequeued -= 1
        else:
            self.dequeued_before -= 1


class LocalQueue(Backlog):
    """A local queue: its messages, the handles that have it open, and the locks and marks of these handles."""

    __slots__ = (
        "attributes", "changes", "co_op_marks", "deleted", "handles", "last_get_at", "last_put_at", "locks", "marking",
        "selecting", "statistics", "uncommitted", "waiters",
    )  # fmt: skip

    def __init__(self, attributes: QueueAttributes, pages: Pages | None = None) -> None:
        super().__init__(pages)
        self.attributes: QueueAttributes = attributes
        #: The number of puts and gets in open units of work. The depth includes these messages; no other get finds them.
        self.uncommitted: int = 0
        self.handles: set[ObjectHandle] = set()
        self.waiters: list[Waiter] = []
        #: The handles with a selection string. A message that is added lowers their `passed_over`, so that they check it.
        self.selecting: list[ObjectHandle] = []
        #: The messages browsed with MQGMO_LOCK: maps the key of a message to the handle with its lock.
        self.locks: dict[int, ObjectHandle] = {}
        #: The messages marked for cooperating browsers: maps each key to the handle and the monotonic time when the mark ends.
        self.co_op_marks: dict[int, tuple[ObjectHandle, float | None]] = {}
        #: The handles with marks of their own. A message that leaves the queue loses these marks.
        self.marking: list[ObjectHandle] = []
        self.deleted: bool = False
        #: How often ALTER with FORCE changed the open queue. Calls with handles from before the last change raise 2041.
        self.changes: int = 0
        self.last_put_at: float | None = None
        self.last_get_at: float | None = None
        self.statistics: Statistics = Statistics()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.attributes.name

    @property
    def depth(self) -> int:
        """CURDEPTH, including uncommitted puts and gets."""
        return len(self._order) + self.uncommitted

    def select_from(self, key: int) -> None:
        """Make the handles with a selection string check the message at this position again."""
        for handle in self.selecting:
            handle.passed_over = min(handle.passed_over, key - 1)

    def take(self, message: QueuedMessage) -> None:
        """Take the message off the queue, with its lock and its marks, so that it is no longer available."""
        Backlog.take(self, message)
        if self.locks:
            self.locks.pop(message.key, None)
        if self.co_op_marks:
            self.co_op_marks.pop(message.key, None)
        for handle in self.marking:
            handle.marks.discard(message.key)

    def lose(self, key: int) -> None:
        """Take a damaged message off the queue, with its lock and its marks."""
        Backlog.lose(self, key)
        self.locks.pop(key, None)
        self.co_op_marks.pop(key, None)
        for handle in self.marking:
            handle.marks.discard(key)

    def take_first(self, messages: Sequence[QueuedMessage]) -> None:
        """Take these messages off the queue. They must be its first messages, in order."""
        if self.locks or self.co_op_marks or self.marking:
            for message in messages:
                self.take(message)
        else:
            Backlog.take_first(self, messages)

    def clear(self) -> Emptied:
        """Take all available messages off the queue, and return them."""
        self.locks.clear()
        self.co_op_marks.clear()
        return Backlog.clear(self)


class QueueDefinition(Struct, eq=False):
    """An alias, a model or a remote queue: a definition without messages. ALTER replaces `attributes`."""

    attributes: QueueAttributes
    handles: "set[ObjectHandle]" = field(default_factory=set)
    #: How often ALTER with FORCE changed the open definition. Calls with handles from before the last change raise 2041.
    changes: int = 0


class ObjectHandle:
    """The Hobj. `bits` has the open options as a plain number, because testing the bits of a flag is slow."""

    __slots__ = (
        "alias", "bits", "connection", "creator", "cursor", "get_options", "get_plan", "locked", "logical", "manager_alias",
        "marks", "name", "noun", "object_type", "open", "options", "passed_over", "publication_count", "published_at", "queue",
        "remote", "saved_context", "seen_changes", "selector", "takes_queue_along", "through", "topic", "trail", "waiter",
    )  # fmt: skip

    def __init__(self, connection: "ConnectionState", name: str, options: OpenOption, object_type: ObjectType) -> None:
        self.connection: ConnectionState = connection
        self.name: str = name
        self.options: OpenOption = options
        self.bits: int = int(options)
        self.object_type: ObjectType = object_type
        self.open: bool = True
        #: The local queue of the handle; None if the handle has no local queue, for example on a topic.
        self.queue: LocalQueue | None = None
        #: If `queue` is a transmission queue, the remote queue and the remote queue manager of the messages; otherwise None.
        self.remote: tuple[str, str] | None = None
        #: The queue manager alias that ObjectQMgrName named; None otherwise.
        self.manager_alias: QueueDefinition | None = None
        #: The full topic string; None if the handle is not for a topic.
        self.topic: str | None = None
        #: "NAMELIST" or "PROCESS"; empty for any other object.
        self.noun: str = ""
        #: The number of publications with this handle, and the time of the last publication.
        self.publication_count: int = 0
        self.published_at: float | None = None
        #: True if the close of this handle deletes the managed queue, because its subscription has ended.
        self.takes_queue_along: bool = False
        #: The alias or remote queue definition that was opened; None otherwise.
        self.alias: QueueDefinition | None = None
        #: If `alias` is the alias of a remote queue, the definition of the remote queue; None otherwise.
        self.through: QueueDefinition | None = None
        #: The sum of the `changes` of the queue and of both definitions at the time of the open.
        self.seen_changes: int = 0
        #: True if this open created the dynamic queue.
        self.creator: bool = False
        #: The key of the last browsed message.
        self.cursor: int = BEFORE_FIRST
        #: The cursor before and after each message of the last call that browsed several messages.
        self.trail: Sequence[int] = ()
        #: The key of the message browsed with MQGMO_LOCK.
        self.locked: int | None = None
        #: The positions of the last put, get and browse within groups and segments.
        self.logical: Final = Retained()
        #: The keys of the messages marked for this handle.
        self.marks: set[int] = set()
        #: The descriptor of the last message got, if the handle was opened with SAVE_ALL_CONTEXT.
        self.saved_context: MessageDescriptor | None = None
        #: The last wait, which can be over.
        self.waiter: Waiter | None = None
        #: The compiled selection string; None without a selection string.
        self.selector: Selector | None = None
        #: No available message up to this position is selected, so a get does not check these messages again.
        self.passed_over: int = BEFORE_FIRST
        # The last get options and their plan, because an application repeats its options.
        self.get_options: GetOptions | None = None
        self.get_plan: GetPlan | None = None

    def go_back(self, count: int) -> None:
        """Move the cursor back over `count` messages of the last browse. Refuses with 2034 if the browse returned fewer."""
        if not 0 < count < len(self.trail) or self.trail[-1] != self.cursor:
            raise Refusal(Reason.NO_MSG_UNDER_CURSOR, "There is no such place to go back to")
        self.cursor = self.trail[-1 - count]

    @property
    def resolved_queue(self) -> str:
        """The name of the queue, also of an opened alias; empty for the queue manager and for a topic."""
        if self.remote is not None:
            return self.remote[0]
        return "" if self.queue is None else self.queue.name

    @property
    def resolved_queue_manager(self) -> str:
        """The queue manager of a remote queue; empty for this queue manager."""
        return "" if self.remote is None else self.remote[1]


class Subscription:
    """One subscription, durable or not. An alteration replaces `attributes`."""

    __slots__ = ("attributes", "holders", "last_message_at", "message_count", "resumed_at", "scheme", "selector", "wild")

    def __init__(self, attributes: SubscriptionAttributes) -> None:
        self.attributes: SubscriptionAttributes = attributes
        self.scheme = Scheme.CHARACTER if attributes.options & SubscribeOption.WILDCARD_CHAR else Scheme.TOPIC
        self.wild: bool = has_wildcards(attributes.topic_string, self.scheme)
        selection = attributes.selection
        #: The compiled selection string; None without a selection string.
        self.selector: Selector | None = None
        try:
            self.selector = compile_selector(selection, STORED_DEPTH_MAX) if selection else None
        except SelectorError as error:  # an earlier version of mqflow accepted the string
            self.selector = lambda _: False
            _logger.error(  # noqa: TRY400 - the traceback says nothing more
                "Subscription %s gets no publications: its selection string %r is not valid. %s. Delete the subscription, and "
                "create it again with a valid selection string.",
                attributes.name,
                selection,
                error,
            )
        #: The handles of the applications that use the subscription: at most one, unless the subscription is shared.
        self.holders: list[SubscriptionHandle] = []
        #: NUMMSGS, and the times of the last message and of the last resume since the start; None before the first.
        self.message_count: int = 0
        self.last_message_at: float | None = None
        self.resumed_at: float | None = None

    def matches(self, topic: str) -> bool:
        """Return whether the subscription receives publications on this topic."""
        return topic_matches(self.attributes.topic_string, self.scheme, topic)


class SubscriptionHandle(Struct, eq=False):
    """The Hsub. `queue` is the handle of a managed queue that MQSUB opened."""

    connection: "ConnectionState"
    subscription: Subscription
    open: bool = True
    queue: ObjectHandle | None = None

    @property
    def name(self) -> str:
        """SubName, or the identifier if the application gave no SubName."""
        return self.subscription.attributes.name


class UnitOfWork:
    """The uncommitted puts and gets of a connection, or of one call. The object is reused for the next unit of work.

    A message that is put is on no queue until the commit, and only a get of the same unit of work finds it. A message that is
    got keeps its position for a backout.
    """

    __slots__ = ("_own_keys", "discarded", "gets", "has_persistent", "marks", "operations", "puts", "retained", "undo")

    def __init__(self) -> None:
        self.puts: dict[int, tuple[LocalQueue, QueuedMessage]] = {}
        self.gets: list[tuple[LocalQueue, QueuedMessage]] = []
        #: The last publication to retain on each topic; None clears the topic.
        self.retained: dict[str, RetainedPublication | None] = {}
        #: The in-flight marks in the store for the messages in `gets`.
        self.marks: list[int] = []
        #: The number that MAXUMSGS limits: puts, gets, and the reports that they caused.
        self.operations: int = 0
        #: True if the commit may need the store.
        self.has_persistent: bool = False
        #: The serial numbers of expired messages that the commit removes from the store. No backout brings them back.
        self.discarded: list[int] = []
        #: The functions that a backout calls, the last one first. For example, they restore positions within groups.
        self.undo: list[Callable[[], None]] = []
        self._own_keys: dict[LocalQueue, list[int]] = {}

    def check_room(self, operations: int, operations_max: int) -> None:
        """Refuse with 2024 more operations than MAXUMSGS allows. The unit of work stays usable."""
        if self.operations + operations > operations_max:
            raise Refusal(Reason.SYNCPOINT_LIMIT_REACHED, f"MAXUMSGS is {operations_max}")

    def add_put(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Add a put."""
        queue.uncommitted += 1
        self.operations += 1
        if message.descriptor.persistence:
            self.has_persistent = True
        self.puts[message.key] = (queue, message)
        keys = self._own_keys.get(queue)
        if keys is None:
            self._own_keys[queue] = [message.key]
        else:
            insort(keys, message.key)

    def add_get(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Add the get of a message that is already off its queue."""
        queue.uncommitted += 1
        self.operations += 1
        if message.stored:
            self.has_persistent = True
        self.gets.append((queue, message))

    def add_gets(self, queue: LocalQueue, messages: Sequence[QueuedMessage]) -> None:
        """Add the gets of messages that are already off their queue."""
        queue.uncommitted += len(messages)
        self.operations += len(messages)
        for message in messages:
            if message.stored:
                self.has_persistent = True
            self.gets.append((queue, message))

    def take_gets(self, other: "UnitOfWork", count: int) -> None:
        """Take the first `count` gets of another unit of work, with their in-flight marks."""
        gets = other.gets[:count]
        stored = sum([message.stored for _, message in gets])
        self.gets += gets
        self.marks += other.marks[:stored]
        self.operations += count
        self.has_persistent = self.has_persistent or stored > 0
        del other.gets[:count], other.marks[:stored]

    def retain(self, topic: str, publication: RetainedPublication | None) -> None:
        """Add a publication that becomes the retained publication of the topic. None removes the retained publication."""
        self.operations += 1
        # Needed also for a publication that is not persistent: it may replace a persistent publication in the store.
        self.has_persistent = True
        self.retained[topic] = publication

    def take_own(self, queue: LocalQueue, message: QueuedMessage) -> None:
        """Remove a put of this unit of work, because the unit got the message or because it expired. Count an operation."""
        self.operations += 1
        queue.uncommitted -= 1
        del self.puts[message.key]
        self._own_keys[queue].remove(message.key)

    def holds_puts_to(self, queue: LocalQueue) -> bool:
        """True if the unit of work has put messages on the queue."""
        return bool(self._own_keys.get(queue))

    def next_own(self, queue: LocalQueue, match: Match | None, after: int) -> QueuedMessage | None:
        """Return the first matching message after the position `after` that this unit has put on the queue, or None."""
        keys = self._own_keys.get(queue)
        if not keys:
            return None
        for position in range(bisect_right(keys, after), len(keys)):
            message = self.puts[keys[position]][1]
            if match is None or (match.serial in {None, message.serial} and matches(match, message.descriptor)):
                return message
        return None

    def clear(self) -> None:
        """Empty the unit of work for the next use."""
        self.has_persistent = False
        self.operations = 0
        self.gets.clear()
        if self.puts or self._own_keys:
            self.puts.clear()
            self._own_keys.clear()
        if self.marks or self.undo or self.retained:
            self.discarded.clear()
            self.marks.clear()
            self.undo.clear()
            self.retained.clear()


class UnitAhead(Struct, frozen=True, gc=False):
    """A unit of work of gets that becomes the connection's unit of work after the units before it are settled."""

    unit: UnitOfWork
    handle: ObjectHandle
    #: The context of the unit's last message. It becomes the saved context of the handle together with the unit.
    saved_context: MessageDescriptor | None


class Waiter(Struct, eq=False):
    """A get that waits for a message, or an observer of the queue. `wake` is called at most once, and only sends a signal."""

    queue: LocalQueue
    wake: Callable[[], None]
    #: The handle and the plan of the get; both are None for an observer.
    handle: ObjectHandle | None = None
    plan: GetPlan | None = None
    #: The key of the message for which the waiter was woken.
    promised: int | None = None


class ConnectionState:
    """The Hconn: the handles, subscriptions and unit of work of a connection, and whether the connection can be used."""

    __slots__ = (
        "address", "ahead", "application_name", "application_type", "busy", "channel", "committing", "end", "ended", "handles",
        "identifier", "pending_refusal", "process", "subscriptions", "undone", "unit_of_work", "user",
    )  # fmt: skip

    def __init__(
        self, application_name: str, user: str, identifier: str, end: "Callable[[ConnectionState, int], None]"
    ) -> None:
        self.application_name: str = application_name
        #: The PutApplType of the messages that this connection puts.
        self.application_type: int = ApplicationType.UNIX
        self.user: str = user
        #: The channel and the address of a client program; empty for other connections.
        self.channel: str
        self.address: str
        self.channel = self.address = ""
        #: The process of the program; for a program on another machine, the process of the queue manager.
        self.process: int = 0
        #: The name that `DISPLAY QSTATUS TYPE(HANDLE)` shows: 16 hexadecimal digits.
        self.identifier: str = identifier
        self.handles: set[ObjectHandle] = set()
        self.subscriptions: set[SubscriptionHandle] = set()
        self.unit_of_work: UnitOfWork = UnitOfWork()
        #: The next units of work, in order. They have only gets, and each is committed or backed out alone.
        self.ahead: deque[UnitAhead] = deque()
        #: Ends the connection with a reason code.
        self.end: Callable[[int], None] = partial(end, self)
        #: 0 while the connection is open, then the reason of its end: 2018 disconnected, 2009 broken, 2162 stopped.
        self.ended: int = 0
        #: True if a call waits without the lock.
        self.busy: bool = False
        self.committing: bool = False
        #: True if the end of the connection backed out a unit of work. The next commit then raises an error.
        self.undone: bool = False
        #: The refusal that ended a `get_many` after some messages, if the next get would not receive it otherwise.
        self.pending_refusal: Refusal | None = None
