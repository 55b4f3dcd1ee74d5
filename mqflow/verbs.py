"""The interface of a queue manager: the synchronous verbs of the MQI that every queue manager behind mqflow offers.

`QueueManager.connect` returns a `Connection`, which lasts from MQCONN to MQDISC. A connection has one unit of work at a time,
and one thread at a time uses the connection. Errors are `MQIError`. If a verb gives data with a warning, the warning is the
`reason` of the result. A get that finds no message (2033) returns None. The embedded queue manager also offers
`InlineConnection`: its verbs block only in a wait for a message and in a durable commit. An event loop can call the other
verbs directly, and uses `on_arrival` and `begin_commit` for these two. This file imports only `mqflow.mqi`, and knows no thread
and no event loop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from mqflow.mqi.descriptor import CCSID_Q_MGR, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import (
    CloseOption,
    Encoding,
    GetOption,
    MatchOption,
    ObjectType,
    OpenOption,
    PutOption,
    SubscriptionRequestOption,
)
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor

__all__ = (
    "UNIT_BYTES_MAX", "WAIT_UNLIMITED", "AbandonableConnection", "BatchConnection", "Connection", "Exchange",
    "FusedConnection", "GetOptions", "Got", "InlineConnection", "InlineQueueManager", "Inquired", "InterruptibleConnection",
    "ManyPut", "ObjectDescriptor", "ObjectHandle", "PipelinedConnection", "Put", "QueueManager", "ReturningConnection",
    "SettledMany", "Subscribed", "SubscriptionHandle", "object_descriptor",
)  # fmt: skip

WAIT_UNLIMITED = -1
"""The `wait_ms` of a get that waits for ever."""
UNIT_BYTES_MAX = 32 * 1024 * 1024
"""The largest total of the messages in one call, in bytes; a single message can be longer."""


class ObjectDescriptor(Struct, frozen=True, gc=False):
    """Names the object of an open or of a single put (MQOD)."""

    #: ObjectName: a queue or a topic object; empty for the queue manager, and for a topic that `object_string` names.
    name: str = ""
    object_type: ObjectType = ObjectType.Q
    #: ObjectQMgrName; empty for the queue manager that the connection reaches.
    queue_manager: str = ""
    #: DynamicQName: the name of the new queue if the object is a model queue; a `*` at the end becomes unique characters.
    dynamic_name: str = "AMQ.*"
    #: AlternateUserId: with the option ALTERNATE_USER_AUTHORITY, the queue manager checks the authority of this user.
    alternate_user: str = ""
    #: ObjectString: the topic string, or the part that follows the topic string of the topic object.
    object_string: str = ""
    #: SelectionString: gets and browses pass over the messages that do not match; empty for all messages.
    selection: str = ""


def object_descriptor(target: ObjectDescriptor | str) -> ObjectDescriptor:
    """Return the target if it is a descriptor, otherwise the descriptor of the queue of this name."""
    return ObjectDescriptor(target) if isinstance(target, str) else target


class GetOptions(Struct, frozen=True, kw_only=True):
    """The options of a get (MQGMO, and the fields of the MQMD to match). Make one record, and use it for every get."""

    options: GetOption = GetOption.NO_SYNCPOINT
    #: With `GetOption.WAIT`: the longest wait, in milliseconds; -1 waits for ever.
    wait_ms: int = 0
    match: MatchOption = MatchOption.NONE
    message_id: bytes = NO_ID
    correlation_id: bytes = NO_ID
    group_id: bytes = NO_ID
    sequence_number: int = 1
    offset: int = 0
    message_token: bytes = bytes(16)
    #: The longest body that the caller takes, in bytes; None takes any body. A longer body sets 2080 or 2079 in `Got.reason`.
    buffer_bytes_max: int | None = None
    #: With `GetOption.CONVERT`: the character set and the encoding to convert to.
    ccsid: int = CCSID_Q_MGR
    encoding: int = Encoding.NATIVE
    #: True if the caller takes properties separately from the body (MsgHandle). Then `Got.properties` has them, unless another
    #: option, or PROPCTL(FORCE) without an option, keeps them in the body.
    message_handle: bool = False


class Got(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A message as MQGET returns it. Encoded for a socket, the record has no field names, so it is short."""

    descriptor: MessageDescriptor
    #: The body; cut to `buffer_bytes_max` when `reason` is 2079 or 2080.
    body: bytes
    #: 0, or the reason of a warning. With 2080 the message stays on the queue; a get with any other warning removes it.
    reason: int = Reason.NONE
    #: DataLength: the length of the whole body.
    data_bytes: int
    #: The local queue that the message was on; if the get named an alias, the target of the alias.
    resolved_queue: str = ""
    message_token: bytes = bytes(16)
    #: With `message_handle`, the properties from the body, as an MQRFH2 that `mqi.properties.rfh2_properties.from_header`
    #: reads. Empty if the message has no properties.
    properties: bytes = b""


class Put(Struct, frozen=True, kw_only=True, gc=False):
    """The result of MQPUT or MQPUT1: the descriptor with identifier, priority, persistence, date and context filled in."""

    descriptor: MessageDescriptor
    resolved_queue: str
    resolved_queue_manager: str
    #: 0, or the reason of a warning: 2049, 2104, 2241 or 2242, or 2479 or 2550 for a publication.
    reason: int = Reason.NONE


class Inquired(Struct, frozen=True):
    """The answer of MQINQ, by selector. If a selector does not apply, its value is -1 or asterisks, and `reason` is 2068."""

    values: Mapping[int, int | str]
    reason: int = Reason.NONE


class ManyPut(Struct, frozen=True):
    """The result of several puts: the puts that were made, in order, and the error of the next put."""

    puts: Sequence[Put]
    #: None if all puts were made. The puts before the error stay made: under syncpoint the caller commits or backs them out.
    error: MQIError | None = None


class Exchange(Struct, frozen=True):
    """The result of "settle the last unit of work, get the next"."""

    #: The error of a failed settlement; then no get was made.
    settle_error: MQIError | None = None
    #: The messages of the next unit of work, all got under syncpoint; empty if no message came within the wait.
    unit: Sequence[Got] = ()
    get_error: MQIError | None = None
    #: The messages that arrived before the connection was lost, if the rest of their unit did not. They are backed out.
    lost: Sequence[Got] = ()


class SettledMany(Struct, frozen=True):
    """The result of "commit these units of work, get further units"."""

    #: For each commit, in order: None, or the error that MQCMIT would have raised.
    errors: Sequence[MQIError | None]
    #: The messages of each new unit of work.
    units: Sequence[Sequence[Got]] = ()


class ObjectHandle(Protocol):
    """An open object (Hobj). The handle is valid only on its connection, until the object is closed."""

    @property
    def name(self) -> str:
        """The name that the open was given, or the name of the dynamic queue that the open made."""
        ...

    @property
    def options(self) -> OpenOption:
        """The options of the open."""
        ...

    @property
    def resolved_queue(self) -> str:
        """The target of an alias or of a remote queue definition; otherwise the name itself (MQOD.ResolvedQName)."""
        ...

    @property
    def resolved_queue_manager(self) -> str:
        """The queue manager of `resolved_queue` (MQOD.ResolvedQMgrName); empty if unknown.

        The embedded queue manager gives this name only for a remote queue; for its own queues it is empty.
        """
        ...


class SubscriptionHandle(Protocol):
    """A subscription that this connection holds (Hsub). When the handle is closed, only a non-durable subscription ends."""

    @property
    def name(self) -> str:
        """SubName; if the subscription has no name, the name that the queue manager gives it."""
        ...


class Subscribed(Struct, frozen=True, kw_only=True):
    """The result of MQSUB."""

    handle: SubscriptionHandle
    #: The queue of the publications. MQSUB opens it for a managed subscription; otherwise it is the queue that the caller gave.
    queue: ObjectHandle
    #: The descriptor with topic string and correlation identifier; for a resumed subscription, all fields have their real
    #: values.
    descriptor: SubscriptionDescriptor
    #: 0, or the reason of a warning.
    reason: int = Reason.NONE


class Connection(Protocol):
    """A connection to a queue manager (Hconn), with the verbs.

    The first verb under syncpoint begins the unit of work; `commit` or `backout` ends it.
    """

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager that the connection reached."""
        ...

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
        """Return a handle on the object (MQOPEN); a text is the name of a queue.

        Opening a model queue makes a dynamic queue. A put to the handle of a topic publishes the message.
        Raises 2459 if the selection string is not valid, 2516 if the options allow no get and no browse.
        """
        ...

    def close(self, handle: ObjectHandle | SubscriptionHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close an object or a subscription (MQCLOSE).

        Closing the handle that made a temporary dynamic queue deletes the queue. Closing the handle of a non-durable
        subscription ends the subscription. A durable subscription ends only with `CloseOption.REMOVE_SUB`.
        """

    def put(
        self,
        handle: ObjectHandle,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Put a message (MQPUT). The PASS_* options pass on the saved context of the input handle `context`.

        Under syncpoint, other programs see the message after the commit. Outside syncpoint, a persistent message is durable
        when this returns.
        """
        ...

    def put1(
        self,
        target: ObjectDescriptor | str,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Open the object, put one message and close the object (MQPUT1); a text is the name of a queue.

        Ignores `dynamic_name` of the target. Raises 2516 for a `selection`.
        """
        ...

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        """Return the next message that matches (MQGET), or None if no message comes within the wait (2033)."""
        ...

    def inquire(self, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
        """Return the attributes of the object that the handle names (MQINQ); for an alias, its own, not those of its target."""
        ...

    def set(self, handle: ObjectHandle, values: Mapping[int, int | str]) -> None:
        """Change attributes of the queue (MQSET): put and get inhibition, triggering, distribution lists."""

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        """Make, resume or alter a subscription (MQSUB). A subscription that is not managed needs the handle of an open queue.

        Raises 2425, 2428, 2429, 2432, 2436, 2440, 2459, 2503 and others as IBM MQ does.
        """
        ...

    def request_publications(
        self, handle: SubscriptionHandle, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE
    ) -> int:
        """Ask for the retained publications again (MQSUBRQ); return their number. Raises 2437 if no publication is retained."""
        ...

    def commit(self) -> None:
        """Commit the unit of work (MQCMIT): when this returns, the unit of work is durable.

        Raises 2003 if the queue manager certainly backed out the unit of work instead, 2009 or 2549 if the outcome is unknown.
        """

    def backout(self) -> None:
        """Undo the unit of work (MQBACK): got messages return to their places with BackoutCount + 1; put messages are gone."""

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**, as IBM MQ does. Back out first to avoid this."""


@runtime_checkable
class ReturningConnection(Connection, Protocol):
    """A connection that can return messages to their places although no handler got them: no BackoutCount rises."""

    def give_back(self, count: int) -> None:
        """Return the messages of the last `count` units of work to their places. The open unit of work is the first unit."""


@runtime_checkable
class InlineConnection(ReturningConnection, Protocol):
    """A connection in this process. An event loop can call the verbs directly: only waits for messages and commits block."""

    @property
    def only_removes(self) -> bool:
        """True if the commit of the open unit of work only removes messages: no puts, and no messages of groups."""
        ...

    def begin_commit(self, done: Callable[[MQIError | None], None], *, behind: bool = False) -> bool:
        """Start MQCMIT. Returns True if the unit of work is durable already; then nothing calls `done`.

        If it returns False, the writer's thread calls `done` exactly once, with None or with the error that `commit` would have
        raised. The caller must call no other verb on this connection before that. Raises the error if the commit fails at once.

        With `behind`, the next unit of work begins immediately, and the caller can call any verb. This requires `only_removes`.
        Units of work become durable in the order of these calls, and each commit has its own answer.
        """
        ...

    def on_arrival(self, handle: ObjectHandle, options: GetOptions, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Call `wake` when a get with these options can find a message, or can fail with a new reason.

        Returns None if such a get is possible now: get again immediately. Otherwise returns a function that withdraws the
        request. Call it after the next get: if that get did not take the message, the message wakes another waiter. `wake` runs
        at most once, in any thread, so it must only notify the event loop. Each message wakes one waiter that takes messages,
        and each waiter that only browses.
        """
        ...


@runtime_checkable
class BatchConnection(Connection, Protocol):
    """A connection with verbs for many messages. `many_verbs.get_many` and `many_verbs.put_many` work over every connection."""

    def get_many(self, handle: ObjectHandle, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return the messages of several gets: only the first get waits, and BROWSE_NEXT follows BROWSE_FIRST.

        Returns up to `most` messages with up to `bytes_max` together; the first message alone can be longer. Returns fewer
        messages if no more are there, or if a get is refused. The next call gets the same refusal. `many_verbs.ends_unit`
        decides which message comes alone or last. Raises the errors of the first get.
        """
        ...

    def put_many(
        self,
        handle: ObjectHandle,
        messages: Sequence[tuple[MessageDescriptor, bytes]],
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> ManyPut:
        """Put the messages in order, up to the first refusal. `ManyPut.error` has this refusal, which is never raised."""
        ...


@runtime_checkable
class FusedConnection(Connection, Protocol):
    """A connection to a remote queue manager: one round trip settles a unit of work and gets the next messages."""

    def exchange(self, handle: ObjectHandle, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
        """Settle the unit of work as `commit` says, then get up to `most` messages; only the first get waits.

        `commit` True commits, False backs out, None leaves the unit of work open. Never raises an `MQIError`: if the settlement
        gets no answer, `settle_error` has the error, and a commit is in doubt.
        """
        ...


@runtime_checkable
class PipelinedConnection(ReturningConnection, Protocol):
    """A connection that has several units of work at a time: one round trip commits some units and gets others.

    The other verbs act on the first unit of work that is not committed. `commit`, `backout`, every get and MQDISC first put
    the messages of all later units back to their places on the queue. No BackoutCount rises, because no handler got them.
    """

    @property
    def only_removes(self) -> bool:
        """True if the application has put nothing in the open unit of work."""
        ...

    def settle_many(self, handle: ObjectHandle, options: GetOptions, *, commits: int, most: int, units: int) -> SettledMany:
        """Commit the first `commits` units of work, each by itself. Then get up to `units` further units, without a wait.

        A unit has up to `most` messages. Some messages need a get of their own, for example a message of a group; they come
        only with a later get. Never raises an `MQIError`. If no answer comes, each commit has the error 2549. If the
        connection was lost before this call, each commit has 2009: the queue manager has backed these units out.
        """
        ...


@runtime_checkable
class InterruptibleConnection(Connection, Protocol):
    """A connection whose waits another thread can end."""

    def interrupt(self) -> None:
        """Make the waiting get, and all later gets, return immediately. Any thread can call this; it never raises."""


@runtime_checkable
class AbandonableConnection(Protocol):
    """A connection that can end without MQDISC, and so without a commit."""

    def abandon(self) -> None:
        """End the connection as if the application had died: the queue manager backs the unit of work out."""


class QueueManager(Protocol):
    """A queue manager that an application can connect to."""

    @property
    def name(self) -> str:
        """The name of the queue manager, as the caller gave it."""
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        """Return a new connection (MQCONNX)."""
        ...


@runtime_checkable
class InlineQueueManager(Protocol):
    """A queue manager in this process: `connect` does not block, and returns an `InlineConnection`."""

    #: Only an inline queue manager has this class attribute.
    inline: Literal[True]

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        ...

    @property
    def stopped(self) -> bool:
        """True if the queue manager has ended permanently; it lives in this process, so no wait brings it back."""
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> InlineConnection:
        """Return a new connection (MQCONNX)."""
        ...
