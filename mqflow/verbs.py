"""The seam: the verbs of the MQI, synchronous, as every queue manager behind mqflow offers them.

`QueueManager` gives `Connection`s; a connection is MQCONN to MQDISC with one unit of work at a time, used by one thread at a
time. Errors are `MQIError`; a warning with data is a `reason` in what is returned; "nothing there" (2033) is None.
The embedded queue manager also offers `InlineConnection`: the same verbs where nothing but a wait or a durable commit blocks,
so an event loop may call them directly. Knows the ground floor only; no thread, no loop.
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
    "UNIT_BYTES_MAX",
    "WAIT_UNLIMITED",
    "AbandonableConnection",
    "BatchConnection",
    "Connection",
    "Exchange",
    "FusedConnection",
    "GetOptions",
    "Got",
    "InlineConnection",
    "InlineQueueManager",
    "Inquired",
    "InterruptibleConnection",
    "ManyPut",
    "ObjectDescriptor",
    "ObjectHandle",
    "Put",
    "QueueManager",
    "Subscribed",
    "SubscriptionHandle",
    "object_descriptor",
)

WAIT_UNLIMITED = -1
UNIT_BYTES_MAX = 32 * 1024 * 1024
"""What several messages got in one call may have together; one alone may be longer."""


class ObjectDescriptor(Struct, frozen=True, gc=False):
    """Names the object that an open or a single put is for (MQOD)."""

    #: ObjectName: of a queue or a topic object; empty for the queue manager, and for a topic that `object_string` names.
    name: str = ""
    object_type: ObjectType = ObjectType.Q
    #: ObjectQMgrName; empty for the queue manager that the connection reaches.
    queue_manager: str = ""
    #: DynamicQName: the name of the queue that opening a model queue makes; a `*` at the end becomes unique characters.
    dynamic_name: str = "AMQ.*"
    #: AlternateUserId: the queue manager checks this user's authority, with the option ALTERNATE_USER_AUTHORITY.
    alternate_user: str = ""
    #: ObjectString: the topic string, or the part of it after the topic string of the topic object.
    object_string: str = ""
    #: SelectionString: gets and browses pass over the messages that do not match; empty for all messages.
    selection: str = ""


def object_descriptor(target: ObjectDescriptor | str) -> ObjectDescriptor:
    """Return the descriptor itself, or that of the queue of this name."""
    return ObjectDescriptor(target) if isinstance(target, str) else target


class GetOptions(Struct, frozen=True, kw_only=True):
    """How to get (MQGMO and the matching half of the MQMD). Make it once, use it for every get."""

    options: GetOption = GetOption.NO_SYNCPOINT
    #: With `GetOption.WAIT`: how long, in milliseconds; -1 for ever.
    wait_ms: int = 0
    match: MatchOption = MatchOption.NONE
    message_id: bytes = NO_ID
    correlation_id: bytes = NO_ID
    group_id: bytes = NO_ID
    sequence_number: int = 1
    offset: int = 0
    message_token: bytes = bytes(16)
    #: The longest body taken; None takes any. A longer one is a 2080 or 2079 in `Got.reason`.
    buffer_bytes_max: int | None = None
    #: With `GetOption.CONVERT`: the character set and encoding wanted.
    ccsid: int = CCSID_Q_MGR
    encoding: int = Encoding.NATIVE
    #: Whether the caller takes properties apart from the body (MsgHandle): they are in `Got.properties` then, unless an option
    #: says otherwise, or PROPCTL(FORCE) without one.
    message_handle: bool = False


class Got(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A message as MQGET returned it. Encoded without the names of its fields: a socket would carry them for each message."""

    descriptor: MessageDescriptor
    #: Cut to `buffer_bytes_max` when `reason` is 2079 or 2080.
    body: bytes
    #: 0, or the reason of a warning: 2080 left the message on the queue; 2079, 2421 and the conversion warnings did not.
    reason: int = Reason.NONE
    #: DataLength: how long the whole body is.
    data_bytes: int
    #: The local queue it came from, behind an alias.
    resolved_queue: str = ""
    message_token: bytes = bytes(16)
    #: With `message_handle`, the properties that were taken out of the body, as an MQRFH2: `mqi.properties.in_rfh2.from_header`
    #: reads it. Empty where there are none.
    properties: bytes = b""


class Put(Struct, frozen=True, kw_only=True, gc=False):
    """What MQPUT or MQPUT1 filled in: the descriptor with its identifier, priority, persistence, date and context."""

    descriptor: MessageDescriptor
    resolved_queue: str
    resolved_queue_manager: str
    #: 0, or the reason of a warning (2049, 2104; of a publication 2479, 2550).
    reason: int = Reason.NONE


class Inquired(Struct, frozen=True):
    """What MQINQ answered, by selector; 2068 in `reason` where a selector does not apply (-1, or asterisks)."""

    values: Mapping[int, int | str]
    reason: int = Reason.NONE


class ManyPut(Struct, frozen=True):
    """What became of several puts: those that were made, in order, and why the next was not."""

    puts: Sequence[Put]
    #: None where all were made. Those before it stand: under syncpoint the caller commits or backs them out.
    error: MQIError | None = None


class Exchange(Struct, frozen=True):
    """What became of "settle the last unit of work, get the next"."""

    #: Why the settlement failed; then nothing was got.
    settle_error: MQIError | None = None
    #: The messages of the next unit of work, all got under syncpoint; empty when the wait was over.
    unit: Sequence[Got] = ()
    get_error: MQIError | None = None


class ObjectHandle(Protocol):
    """An open object (Hobj). Valid on its connection only, until closed; what a handle is made of is its maker's business."""

    @property
    def name(self) -> str:
        """The name it was opened by, or that of the dynamic queue the open made."""
        ...

    @property
    def options(self) -> OpenOption:
        """What it was opened for."""
        ...

    @property
    def resolved_queue(self) -> str:
        """The queue behind an alias or a remote queue's definition; the name itself otherwise (MQOD.ResolvedQName)."""
        ...

    @property
    def resolved_queue_manager(self) -> str:
        """Whose that queue is (MQOD.ResolvedQMgrName); empty where it is not told, as of queues that are all here."""
        ...


class SubscriptionHandle(Protocol):
    """A subscription that this connection holds (Hsub), until closed: then a non-durable one is over, a durable one goes on."""

    @property
    def name(self) -> str:
        """SubName; the queue manager's word for it where it has none."""
        ...


class Subscribed(Struct, frozen=True, kw_only=True):
    """What MQSUB returned."""

    handle: SubscriptionHandle
    #: Where the publications come: of a managed subscription opened by MQSUB, otherwise the handle that was given.
    queue: ObjectHandle
    #: Filled in: topic string, identifier of correlation; of a resumed subscription everything, as it really is.
    descriptor: SubscriptionDescriptor
    #: 0, or the reason of a warning.
    reason: int = Reason.NONE


class Connection(Protocol):
    """Hconn: the verbs. One unit of work, begun by the first verb under syncpoint, ended by `commit` or `backout`."""

    @property
    def queue_manager_name(self) -> str:
        """The name of the queue manager reached."""
        ...

    def open(self, target: ObjectDescriptor | str, options: OpenOption) -> ObjectHandle:
        """Return a handle on the object (MQOPEN); a text is the name of a queue.

        Opening a model queue makes a dynamic queue. Raises 2459 if the selection string is not valid, 2516 if the options
        allow no get and no browse.
        """
        ...

    def close(self, handle: ObjectHandle | SubscriptionHandle, options: CloseOption = CloseOption.NONE) -> None:
        """Close an object or a subscription (MQCLOSE).

        A temporary dynamic queue goes with the handle that made it; a non-durable subscription with its handle, a durable one
        with `CloseOption.REMOVE_SUB`.
        """
        ...

    def put(
        self,
        handle: ObjectHandle,
        descriptor: MessageDescriptor,
        body: bytes,
        options: PutOption,
        *,
        context: ObjectHandle | None = None,
    ) -> Put:
        """Put a message (MQPUT); `context` is the input handle whose saved context PASS_* options pass on.

        Under syncpoint it shows to others after the commit; outside, a persistent message is durable when this returns.
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

        Ignores the descriptor's `dynamic_name` and `selection`.
        """
        ...

    def get(self, handle: ObjectHandle, options: GetOptions) -> Got | None:
        """Return the next message that matches (MQGET), or None where there is none within the wait (2033)."""
        ...

    def inquire(self, handle: ObjectHandle, selectors: Sequence[int]) -> Inquired:
        """Return the attributes asked for (MQINQ), of the object the handle names: of an alias, the alias's."""
        ...

    def set(self, handle: ObjectHandle, values: Mapping[int, int | str]) -> None:
        """Change attributes (MQSET): put and get inhibition, triggering, distribution lists."""
        ...

    def subscribe(self, descriptor: SubscriptionDescriptor, queue: ObjectHandle | None = None) -> Subscribed:
        """Make, resume or alter a subscription (MQSUB). One that is not managed needs the handle of an open queue.

        Raises 2425, 2428, 2429, 2432, 2436, 2440, 2459, 2503 and others as IBM MQ does.
        """
        ...

    def request_publications(
        self, handle: SubscriptionHandle, options: SubscriptionRequestOption = SubscriptionRequestOption.NONE
    ) -> int:
        """Have what is retained on the subscription's topics sent again (MQSUBRQ); return how many. 2437 where nothing is."""
        ...

    def commit(self) -> None:
        """End the unit of work for good (MQCMIT): when this returns, it is durable.

        Raises 2003 where it was certainly backed out instead, 2009 or 2549 where the outcome is unknown.
        """
        ...

    def backout(self) -> None:
        """Undo the unit of work (MQBACK): its gets return to their places with BackoutCount + 1, its puts are gone."""
        ...

    def disconnect(self) -> None:
        """End the connection (MQDISC). **Commits an open unit of work**, as IBM MQ does: back out first unless meant."""
        ...


@runtime_checkable
class InlineConnection(Connection, Protocol):
    """A connection whose verbs are memory operations: an event loop may call them, and suspends for two things only."""

    def begin_commit(self, done: Callable[[MQIError | None], None]) -> bool:
        """Start MQCMIT. True: it is over and durable, `done` is not called.

        False: `done` is called exactly once, from the writer's thread, with None or with the error `commit` would have raised.
        No other verb may be called on this connection until then.
        """
        ...

    def on_arrival(self, handle: ObjectHandle, options: GetOptions, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Ask to be woken when a get with these options may find something, or may fail with something new.

        Returns None where that is so already (get again at once), else a function that withdraws the request. `wake` is called
        at most once, from any thread, and must only hand over. One waiter is woken for one message.
        """
        ...


@runtime_checkable
class BatchConnection(Connection, Protocol):
    """A connection with verbs for many messages. Others have the same by the functions `get_many` and `put_many`."""

    def get_many(self, handle: ObjectHandle, options: GetOptions, most: int, *, bytes_max: int = UNIT_BYTES_MAX) -> list[Got]:
        """Return what as many gets would, one after the other: only the first waits, BROWSE_FIRST goes on with BROWSE_NEXT.

        Up to `most` messages, and `bytes_max` unless the first alone is longer; fewer where nothing more is there, or a get is
        refused (that one the next call meets again). `ends_unit` says what comes alone or last. Raises what the first get does.
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
        """Put the messages one after the other, up to the first that is refused. Never raises that `MQIError`."""
        ...


@runtime_checkable
class FusedConnection(Connection, Protocol):
    """A connection whose queue manager is far away: settling a unit of work and getting the next is one way there and back."""

    def exchange(self, handle: ObjectHandle, options: GetOptions, *, commit: bool | None, most: int) -> Exchange:
        """Commit, back out, or with None do neither; then get a message and, of what is there at once, up to `most`.

        Never raises an `MQIError`: a settlement that got no answer is `settle_error`, and a commit then in doubt.
        """
        ...


@runtime_checkable
class InterruptibleConnection(Connection, Protocol):
    """A connection whose waits another thread can end."""

    def interrupt(self) -> None:
        """Let the get that waits, and all later ones, return with what is there. From any thread; never raises."""
        ...


@runtime_checkable
class AbandonableConnection(Protocol):
    """A connection that can end without MQDISC, which would commit."""

    def abandon(self) -> None:
        """End the connection as the death of its application does: the queue manager backs its unit of work out."""
        ...


class QueueManager(Protocol):
    """Something one can connect to."""

    @property
    def name(self) -> str:
        """The queue manager's name, as asked for."""
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        """Return a new connection (MQCONNX)."""
        ...


@runtime_checkable
class InlineQueueManager(Protocol):
    """A queue manager in this process: connecting does not block, and what `connect` returns is an `InlineConnection`."""

    #: Says so; the class attribute is what tells it from a queue manager that one waits for.
    inline: Literal[True]

    @property
    def name(self) -> str:
        """As `QueueManager.name`."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether it has ended for good: it lives in this process, so no waiting brings it back."""
        ...

    def connect(self, *, application_name: str = "", user: str = "") -> InlineConnection:
        """Return a new connection (MQCONNX)."""
        ...
