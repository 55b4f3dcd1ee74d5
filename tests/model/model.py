"""A model of a queue manager, in lists and dictionaries: the rules of the MQI that the real queue manager must follow.

The model is written from IBM's pages, not from the implementation. It is as plain as Python allows: a queue is a list, a search
is a loop. If the pages leave a choice, the state machine avoids that case, or the model accepts several answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason

INPUT = OpenOption.INPUT_SHARED | OpenOption.INPUT_EXCLUSIVE


class RefusedError(Exception):
    """The call fails with one of these reasons. With `or_nothing`, a result without a message is correct too."""

    def __init__(self, *reasons: Reason, or_nothing: bool = False) -> None:
        super().__init__(*reasons)
        self.reasons = frozenset(reasons)
        self.or_nothing = or_nothing


class State(Enum):
    """The state of a message."""

    THERE = auto()
    PUT = auto()
    """Held by an open unit of work."""
    GOT = auto()


class Unit(Enum):
    """Whether a call is part of the unit of work."""

    NO = auto()
    YES = auto()
    IF_PERSISTENT = auto()


class Look(Enum):
    """The start of a browse."""

    FIRST = auto()
    NEXT = auto()
    UNDER_CURSOR = auto()


@dataclass(frozen=True)
class Match:
    """The match of a get; empty matches every message."""

    message_id: bytes = b""
    correlation_id: bytes = b""

    def fits(self, message: "Message") -> bool:
        return self.message_id in {b"", message.message_id} and self.correlation_id in {b"", message.correlation_id}


ANY = Match()


@dataclass(eq=False)
class Message:
    body: bytes
    serial: int
    priority: int
    persistent: bool
    message_id: bytes
    correlation_id: bytes
    expires_at: float | None = None
    #: The priority in the descriptor; `priority` is the priority that orders the queue.
    stated_priority: int = 0
    backout_count: int = 0
    state: State = State.THERE
    connection: "Connection | None" = None
    lock: "Handle | None" = None

    @property
    def key(self) -> tuple[int, int]:
        return (-self.priority, self.serial)


@dataclass(eq=False)
class Queue:
    name: str
    fifo: bool = False
    max_depth: int = 1_000
    max_bytes: int = 100
    get_inhibited: bool = False
    put_inhibited: bool = False
    messages: list[Message] = field(default_factory=list)
    handles: list["Handle"] = field(default_factory=list)

    @property
    def depth(self) -> int:
        return len(self.messages)

    @property
    def uncommitted(self) -> int:
        return sum(message.state is not State.THERE for message in self.messages)


@dataclass(eq=False)
class Alias:
    name: str
    target: str
    get_inhibited: bool = False
    put_inhibited: bool = False


@dataclass(eq=False)
class Handle:
    connection: "Connection"
    queue: Queue
    options: OpenOption
    alias: Alias | None = None
    cursor: tuple[int, int] | None = None
    #: Whether a BROWSE_FIRST found no message: no page says where the cursor is after that.
    cursor_unknown: bool = False

    @property
    def get_inhibited(self) -> bool:
        return self.queue.get_inhibited or (self.alias is not None and self.alias.get_inhibited)

    @property
    def put_inhibited(self) -> bool:
        return self.queue.put_inhibited or (self.alias is not None and self.alias.put_inhibited)

    @property
    def locked(self) -> Message | None:
        return next((message for message in self.queue.messages if message.lock is self), None)


@dataclass(eq=False)
class Connection:
    number: int
    handles: list[Handle] = field(default_factory=list)
    puts: list[tuple[Queue, Message]] = field(default_factory=list)
    gets: list[tuple[Queue, Message]] = field(default_factory=list)
    #: The number that MAXUMSGS limits.
    operations: int = 0


class Model:
    """The queue manager."""

    def __init__(self, max_uncommitted: int) -> None:
        self.max_uncommitted = max_uncommitted
        self.now = 0.0
        self.serial = 0
        self.queues: dict[str, Queue] = {}
        self.aliases: dict[str, Alias] = {}
        self.connections: list[Connection] = []

    # -- connections and units of work

    def connect(self) -> Connection:
        connection = Connection(len(self.connections))
        self.connections.append(connection)
        return connection

    def disconnect(self, connection: Connection) -> None:
        """MQDISC commits."""
        self.commit(connection)
        self._leave(connection)

    def kill(self, connection: Connection) -> None:
        """The queue manager backs out the open unit of work of a dead application."""
        self.backout(connection)
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        for handle in list(connection.handles):
            self.close(handle)
        self.connections.remove(connection)

    def commit(self, connection: Connection) -> None:
        for _, message in connection.puts:
            message.state, message.connection = State.THERE, None
        for queue, message in connection.gets:
            queue.messages.remove(message)
        connection.puts, connection.gets, connection.operations = [], [], 0

    def backout(self, connection: Connection) -> None:
        """Puts are gone; messages that were got are back in their places, with one more backout."""
        for queue, message in connection.puts:
            queue.messages.remove(message)
        for _, message in connection.gets:
            message.state, message.connection = State.THERE, None
            message.backout_count += 1
        connection.puts, connection.gets, connection.operations = [], [], 0

    def restart(self) -> None:
        """Messages that are not persistent are gone; open units of work are backed out."""
        for connection in list(self.connections):
            self.kill(connection)
        for queue in self.queues.values():
            queue.messages = [message for message in queue.messages if message.persistent]

    # -- objects

    def open(self, connection: Connection, name: str, options: OpenOption) -> Handle:
        alias = self.aliases.get(name)
        queue = self.queues.get(name if alias is None else alias.target)
        if queue is None:
            raise RefusedError(Reason.UNKNOWN_OBJECT_NAME if alias is None else Reason.UNKNOWN_ALIAS_BASE_Q)
        inputs = [handle for handle in queue.handles if handle.options & INPUT]
        if options & OpenOption.INPUT_EXCLUSIVE and inputs:
            raise RefusedError(Reason.OBJECT_IN_USE)
        if options & INPUT and any(handle.options & OpenOption.INPUT_EXCLUSIVE for handle in inputs):
            raise RefusedError(Reason.OBJECT_IN_USE)
        handle = Handle(connection, queue, options, alias)
        queue.handles.append(handle)
        connection.handles.append(handle)
        return handle

    def close(self, handle: Handle) -> None:
        self._release(handle)
        handle.queue.handles.remove(handle)
        handle.connection.handles.remove(handle)

    def clear(self, queue: Queue) -> None:
        if queue.handles or queue.uncommitted:
            raise RefusedError(Reason.OBJECT_IN_USE)
        queue.messages.clear()

    def delete(self, queue: Queue, *, purge: bool) -> None:
        if queue.handles:
            raise RefusedError(Reason.OBJECT_IN_USE)
        if queue.uncommitted:
            raise RefusedError(Reason.Q_NOT_EMPTY, Reason.OBJECT_IN_USE)
        if queue.messages and not purge:
            raise RefusedError(Reason.Q_NOT_EMPTY)
        del self.queues[queue.name]

    # -- puts

    def put(self, handle: Handle, message: Message, unit: Unit) -> None:
        """Put `message` with its priority; the queue decides its order."""
        if not handle.options & OpenOption.OUTPUT:
            raise RefusedError(Reason.NOT_OPEN_FOR_OUTPUT)
        queue, connection = handle.queue, handle.connection
        reasons = []
        if handle.put_inhibited:
            reasons.append(Reason.PUT_INHIBITED)
        if queue.depth >= queue.max_depth:
            reasons.append(Reason.Q_FULL)
        if len(message.body) > queue.max_bytes:
            reasons.append(Reason.MSG_TOO_BIG_FOR_Q)
        if unit is Unit.YES and connection.operations >= self.max_uncommitted:
            reasons.append(Reason.SYNCPOINT_LIMIT_REACHED)
        if reasons:
            raise RefusedError(*reasons)
        self.serial += 1
        message.serial = self.serial
        if queue.fifo:
            message.priority = 0
        if unit is Unit.YES:
            message.state, message.connection = State.PUT, connection
            connection.puts.append((queue, message))
            connection.operations += 1
        queue.messages.append(message)
        queue.messages.sort(key=lambda each: each.key)

    # -- gets

    def get(self, handle: Handle, unit: Unit, match: Match = ANY) -> Message | None:
        self._check_get(handle)
        found = next(self._scan(handle, match), None)
        self._take(handle, found, unit)
        return found

    def get_under_cursor(self, handle: Handle, unit: Unit) -> Message:
        self._check_get(handle)
        found = self._under_cursor(handle)
        self._take(handle, found, unit)
        return found

    def browse(self, handle: Handle, look: Look, *, lock: bool) -> Message | None:
        if not handle.options & OpenOption.BROWSE:
            raise RefusedError(Reason.NOT_OPEN_FOR_BROWSE)
        if handle.get_inhibited:
            raise RefusedError(Reason.GET_INHIBITED)
        found: Message | None
        if look is Look.UNDER_CURSOR:
            found = self._under_cursor(handle)
        else:
            after = handle.cursor if look is Look.NEXT else None
            found = next(self._scan(handle, ANY, after), None)
        handle.cursor_unknown = found is None and look is Look.FIRST
        if found is not None:
            handle.cursor = found.key
            self._release(handle)
            found.lock = handle if lock else None
        return found

    def unlock(self, handle: Handle) -> None:
        if handle.locked is None:
            raise RefusedError(Reason.NO_MSG_LOCKED)
        self._release(handle)

    def visible(self, handle: Handle, message: Message) -> bool:
        """Return whether this handle may see the message, expired or not."""
        if message.state is State.THERE:
            return message.lock is None or message.lock is handle
        return message.state is State.PUT and message.connection is handle.connection and message.lock in {None, handle}

    def expired(self, message: Message) -> bool:
        return message.expires_at is not None and message.expires_at <= self.now

    def discard_expired(self, queue: Queue) -> None:
        """Apply the effects of a browse of the whole queue."""
        for message in list(queue.messages):
            if message.state is State.THERE and self.expired(message):
                queue.messages.remove(message)

    def _check_get(self, handle: Handle) -> None:
        if not handle.options & INPUT:
            raise RefusedError(Reason.NOT_OPEN_FOR_INPUT)
        if handle.get_inhibited:
            raise RefusedError(Reason.GET_INHIBITED)

    def _scan(self, handle: Handle, match: Match, after: tuple[int, int] | None = None) -> Iterator[Message]:
        """Yield the messages of a search, in order; an expired message is removed instead."""
        for message in list(handle.queue.messages):
            if (after is not None and message.key <= after) or not match.fits(message):
                continue
            if self.expired(message) and message.state is State.THERE:  # a browse lock does not keep a message from expiring
                handle.queue.messages.remove(message)
            elif self.visible(handle, message):
                yield message

    def _under_cursor(self, handle: Handle) -> Message:
        message = next((each for each in handle.queue.messages if each.key == handle.cursor), None)
        if message is None or not self.visible(handle, message):
            raise RefusedError(Reason.NO_MSG_UNDER_CURSOR)
        if self.expired(message):
            handle.queue.messages.remove(message)
            raise RefusedError(Reason.NO_MSG_UNDER_CURSOR)
        return message

    def _take(self, handle: Handle, message: Message | None, unit: Unit) -> None:
        connection = handle.connection
        full = connection.operations >= self.max_uncommitted
        if message is None:
            if full and unit is not Unit.NO:
                raise RefusedError(Reason.SYNCPOINT_LIMIT_REACHED, or_nothing=True)
            return
        in_unit = unit is Unit.YES or (unit is Unit.IF_PERSISTENT and message.persistent)
        if in_unit and full:
            raise RefusedError(Reason.SYNCPOINT_LIMIT_REACHED)
        self._release(handle)
        message.lock = None
        if not in_unit:
            handle.queue.messages.remove(message)
            return
        connection.operations += 1
        if message.state is State.PUT:  # put by this same unit of work: the message is gone, whether the unit commits or not
            connection.puts.remove((handle.queue, message))
            handle.queue.messages.remove(message)
            return
        message.state, message.connection = State.GOT, connection
        connection.gets.append((handle.queue, message))

    def _release(self, handle: Handle) -> None:
        locked = handle.locked
        if locked is not None:
            locked.lock = None
