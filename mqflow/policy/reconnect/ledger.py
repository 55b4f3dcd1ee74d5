"""Decides how open objects are opened again after a connection was lost: which, in which order, and what is lost.

The ledger lists handles in the order in which they were first opened. A program refers to a handle by the number of its entry,
which stays valid after a reconnection. This module opens nothing.
Source: IBM, "Automatic client reconnection" (q017800), CLIENTRECONNECTOPTIONS (q111980) for 2546, and the pages of the reasons
2548 and 2555 (q045470, q045540).
"""

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import ObjectType, OpenOption, SubscribeOption
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.policy.reconnect.reason_classes import Class, classify

__all__ = (
    "Again",
    "Ledger",
    "NotReopened",
    "Object",
    "Opened",
    "Reached",
    "Reopen",
    "StartOver",
    "Step",
    "Subscribe",
    "Subscription",
    "TryAgain",
    "admit",
    "after_refusal",
    "closed",
    "gone",
    "opened",
    "replay",
    "unreplayable",
)


class Object(Struct, frozen=True, kw_only=True):
    """An object as it was opened: a queue, a topic to publish to, or the queue manager."""

    #: The place of this object in the order of first opening; `opened` sets it.
    number: int = 0
    #: The session that opened the object. Its connection has the handle, because a handle belongs to one connection.
    session: str
    #: The user of the object, for people: "listener ORDERS.IN", "delay processor".
    owner: str
    #: The name that was passed to the open; for a dynamic queue, the name of the model queue.
    name: str
    options: OpenOption
    object_type: ObjectType = ObjectType.Q
    queue_manager: str = ""
    object_string: str = ""
    alternate_user: str = ""
    #: The selection string; empty for all messages.
    selection: str = ""
    #: The name that the open returned. It differs from `name` if a model queue made a dynamic queue.
    opened_name: str = ""
    #: True if the queue is a temporary dynamic queue (DEFTYPE).
    temporary: bool = False

    @property
    def made_the_queue(self) -> bool:
        """True if this open made the dynamic queue."""
        return bool(self.opened_name) and self.opened_name != self.name


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription as it was made or resumed by MQSUB."""

    number: int = 0
    session: str
    owner: str
    #: The descriptor that MQSUB returned, with the name, the topic string and the correlation identifier filled in.
    descriptor: SubscriptionDescriptor
    #: The number of the queue that publications go to; None for a managed subscription, whose queue MQSUB makes.
    queue: int | None = None

    @property
    def durable(self) -> bool:
        """True if the subscription exists longer than its connection."""
        return bool(self.descriptor.options & SubscribeOption.DURABLE)


Opened = Object | Subscription


class Ledger(Struct, frozen=True):
    """The open objects and subscriptions, in the order of first opening."""

    entries: tuple[Opened, ...] = ()
    #: The number of the next entry. No number is used twice.
    next_number: int = 1


class Reopen(Struct, frozen=True):
    """Open the object again by this name. If `dynamic_name` is set, open the model queue to make this dynamic queue again."""

    entry: Object
    name: str
    dynamic_name: str = ""


class Subscribe(Struct, frozen=True):
    """Subscribe again, with this descriptor."""

    entry: Subscription
    descriptor: SubscriptionDescriptor


class NotReopened(Struct, frozen=True):
    """The entry cannot be opened again. Its owner gets the error; other entries are not affected."""

    entry: Opened
    error: MQIError


Step = Reopen | Subscribe | NotReopened


class TryAgain(Struct, frozen=True):
    """The cause of the error can go away. Try this entry again after a pause, and continue with the other entries."""

    entry: Opened


class StartOver(Struct, frozen=True):
    """The new connection is lost too. Make another connection, and open all entries again from the beginning."""

    reason: int


Again = TryAgain | StartOver | NotReopened


class Reached(Struct, frozen=True):
    """A queue manager that was reached by a connection: its name, and its QMID if MQINQ could read it."""

    name: str
    identifier: str = ""


def opened(ledger: Ledger, entry: Opened) -> tuple[Ledger, int]:
    """Return the ledger with this entry added at its end, and the number of the entry."""
    number = ledger.next_number
    return Ledger((*ledger.entries, replace(entry, number=number)), number + 1), number


def closed(ledger: Ledger, number: int) -> Ledger:
    """Return the ledger without the entry of this number; unchanged if there is no such entry."""
    return replace(ledger, entries=tuple(entry for entry in ledger.entries if entry.number != number))


def replay(ledger: Ledger, session: str) -> tuple[Step, ...]:
    """Return the steps for the new connection of this session, in the order of first opening.

    Every entry of the session has one step. If this session made a temporary dynamic queue and still holds that handle, the
    queue is made again under its name, and is empty. A handle that was opened by this name is reopened only after that step.
    A durable subscription is resumed, not created: if it no longer exists, publications are lost, and the owner must get the
    error.
    """
    steps: list[Step] = []
    made: set[str] = set()
    refused: set[int] = set()
    for entry in ledger.entries:
        if entry.session != session:
            continue
        step = _step(entry, made, refused)
        if isinstance(step, NotReopened):
            refused.add(entry.number)
        elif isinstance(entry, Object):
            made.add(entry.opened_name)
        steps.append(step)
    return tuple(steps)


def after_refusal(entry: Opened, error: MQIError) -> Again:
    """Return the next step after an entry could not be opened again because of this error.

    If the connection is lost, the caller makes a new connection and opens all entries again. If the cause can go away, the open
    is tried again; an example is 2042 while the old connection still holds the queue. Any other error becomes 2548 for the
    owner of this entry only. The text of the 2548 names the object and the reason.
    """
    reason = int(error.reason)
    match classify(reason):
        case Class.RECONNECT:
            return StartOver(reason)
        case Class.WAIT | Class.RETRY:
            return TryAgain(entry)
        case Class.REOPEN | Class.CONFIGURATION | Class.MESSAGE:
            return _refused(entry, f"{error.verb} was refused with {reason_name(reason)}")
        case never:
            assert_never(never)


def admit(mode: ReconnectMode, before: Reached, now: Reached) -> MQIError | None:
    """Return None if a connection to `before` may be replaced by a connection to `now`; otherwise the error 2546.

    Only `ReconnectMode.Q_MGR` checks this. A queue manager that was deleted and created again under the same name is another
    queue manager. If a QMID is unknown, the names are compared.
    """
    if mode is not ReconnectMode.Q_MGR:
        return None
    if before.identifier and now.identifier:
        same = before.identifier == now.identifier
        detail = f"It has the QMID {now.identifier}, the queue manager before it has {before.identifier}"
    else:
        same = before.name.rstrip() == now.name.rstrip()
        detail = f"Its name is {now.name}, the queue manager before it is {before.name}"
    return None if same else error_for(Reason.RECONNECT_QMID_MISMATCH, "MQCONNX", queue_manager=now.name, detail=detail)


def unreplayable(mode: ReconnectMode, subscription: SubscribeOption) -> Reason:
    """Return 2555 if a subscription cannot follow the connection to another queue manager; otherwise `Reason.NONE`.

    With 2555, MQSUB fails immediately; without it, the failover would fail later. A durable subscription exists on one queue
    manager only (q045540). So does the queue of a managed subscription, and several connections of a listener get from that
    queue.
    """
    bound = subscription & (SubscribeOption.DURABLE | SubscribeOption.MANAGED)
    return Reason.RECONNECT_Q_MGR_REQD if mode is ReconnectMode.ANY and bound else Reason.NONE


def gone(entry: Opened) -> tuple[str, ...]:
    """Return in words what the handle loses when it is opened again; empty if it loses nothing.

    The message context that the last get saved is not included. It is lost with the unit of work, and another message reports
    that loss.
    """
    match entry:
        case Subscription():
            return () if entry.durable else ("publications since the connection was lost",)
        case Object():
            return (
                *(lost for option, lost in _GONE if entry.options & option),
                *(("the messages on the temporary queue",) if entry.temporary else ()),
            )
        case _:
            assert_never(entry)


_GONE: Final = (
    (OpenOption.BROWSE, "the position of the browse cursor, with its lock and its marks"),
    (OpenOption.READ_AHEAD, "messages that were read ahead"),
)
"""Options whose state belongs to the connection, so a new connection loses it (q017800, and partly from memory)."""


def _step(entry: Opened, made: set[str], refused: set[int]) -> Step:
    match entry:
        case Subscription():
            if entry.queue in refused:
                return _refused(entry, "The queue for its publications could not be opened again")
            return Subscribe(entry, replace(entry.descriptor, options=_again(entry)))
        case Object(made_the_queue=True, temporary=True):
            return Reopen(entry, entry.name, entry.opened_name)
        case Object(temporary=True) if entry.name not in made:
            return _refused(entry, "It was a temporary queue of another connection or of a closed handle, and no longer exists")
        case Object():
            return Reopen(entry, entry.opened_name or entry.name)
        case _:
            assert_never(entry)


def _again(entry: Subscription) -> SubscribeOption:
    options = entry.descriptor.options & ~(SubscribeOption.CREATE | SubscribeOption.RESUME | SubscribeOption.ALTER)
    return options | (SubscribeOption.RESUME if entry.durable else SubscribeOption.CREATE)


def _refused(entry: Opened, why: str) -> NotReopened:
    match entry:
        case Subscription():
            verb, name = "MQSUB", entry.descriptor.name or entry.descriptor.topic_string or entry.descriptor.object_string
        case Object():
            verb, name = "MQOPEN", entry.opened_name or entry.name
        case _:
            assert_never(entry)
    return NotReopened(entry, error_for(Reason.RECONNECT_FAILED, verb, name, detail=f"{why}. {entry.owner} is without it"))
