"""Decides how what was open is opened again after a connection was lost: what, in which order, and what of it is gone for good.

The ledger is a record of handles in the order in which they were first opened; what a user holds is an entry's number, which
stays valid. Knows records and numbers; opens nothing.
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
    "Object",
    "Open",
    "Opened",
    "Reached",
    "Refused",
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
    """An object as it was opened: a queue, a topic to publish to, the queue manager."""

    #: When it was first opened, counted over the ledger; `opened` sets it.
    number: int = 0
    #: Whose connection it is open on: handles belong to one.
    session: str
    #: Who opened it, for a person: "listener ORDERS.IN", "requeuer".
    owner: str
    #: What the open asked for: of a dynamic queue, its model.
    name: str
    options: OpenOption
    object_type: ObjectType = ObjectType.Q
    queue_manager: str = ""
    object_string: str = ""
    alternate_user: str = ""
    #: The selection string; empty for all messages.
    selection: str = ""
    #: What the open answered; another name than `name` where a model queue made a dynamic one.
    opened_name: str = ""
    #: Whether the queue is a temporary dynamic one (DEFTYPE).
    temporary: bool = False

    @property
    def made_the_queue(self) -> bool:
        """Whether this open made the dynamic queue."""
        return bool(self.opened_name) and self.opened_name != self.name


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription as it was made or resumed."""

    number: int = 0
    session: str
    owner: str
    #: What MQSUB answered: with the name, the topic string and the correlation identifier filled in.
    descriptor: SubscriptionDescriptor
    #: The number of the object that publications go to; None for a managed subscription, whose queue comes with it.
    queue: int | None = None

    @property
    def durable(self) -> bool:
        """Whether it outlives its connection."""
        return bool(self.descriptor.options & SubscribeOption.DURABLE)


Opened = Object | Subscription


class Ledger(Struct, frozen=True):
    """What is open, in the order in which it was first opened."""

    entries: tuple[Opened, ...] = ()
    #: The number that the next entry gets; numbers are not used twice.
    next_number: int = 1


class Open(Struct, frozen=True):
    """Open it again by this name; a model queue is to make the dynamic queue again, under the name it had."""

    entry: Object
    name: str
    dynamic_name: str = ""


class Subscribe(Struct, frozen=True):
    """Subscribe again, with this descriptor."""

    entry: Subscription
    descriptor: SubscriptionDescriptor


class Refused(Struct, frozen=True):
    """It cannot be opened again: its owner gets the error, everybody else goes on."""

    entry: Opened
    error: MQIError


Step = Open | Subscribe | Refused


class TryAgain(Struct, frozen=True):
    """What is in the way may go away: try this entry again after a pause, and go on with the others meanwhile."""

    entry: Opened


class StartOver(Struct, frozen=True):
    """The new connection is lost too: get another one, and open everything again from the beginning."""

    reason: int


Again = TryAgain | StartOver | Refused


class Reached(Struct, frozen=True):
    """A queue manager that was reached: its name, and its QMID where that could be inquired."""

    name: str
    identifier: str = ""


def opened(ledger: Ledger, entry: Opened) -> tuple[Ledger, int]:
    """Return the ledger with the entry at its end, and the entry's number."""
    number = ledger.next_number
    return Ledger((*ledger.entries, replace(entry, number=number)), number + 1), number


def closed(ledger: Ledger, number: int) -> Ledger:
    """Return the ledger without that entry; as it was where there is none."""
    return replace(ledger, entries=tuple(entry for entry in ledger.entries if entry.number != number))


def replay(ledger: Ledger, session: str) -> tuple[Step, ...]:
    """Return what to do for the new connection of this session, in the order of first opening.

    Every entry of the session is in one step. A temporary dynamic queue is made again, empty, under its name, where this
    session made it and still holds the handle; opened by name it is there again only behind that step. A durable subscription
    is resumed and not created: one that is gone shall be told, because its publications are gone too.
    """
    steps: list[Step] = []
    made: set[str] = set()
    refused: set[int] = set()
    for entry in ledger.entries:
        if entry.session != session:
            continue
        step = _step(entry, made, refused)
        if isinstance(step, Refused):
            refused.add(entry.number)
        elif isinstance(entry, Object):
            made.add(entry.opened_name)
        steps.append(step)
    return tuple(steps)


def after_refusal(entry: Opened, error: MQIError) -> Again:
    """Return what follows where the step of an entry ended with this error.

    A lost connection starts over; what may go away (the old connection still holds the queue exclusively: 2042) is tried again;
    everything else is 2548 for the owner of this entry alone, with the object and the reason in the sentence.
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
    """Return None where the queue manager reached will do after the one before, else the error (2546).

    Only `ReconnectMode.Q_MGR` minds. One that was created anew under the old name is another one. Where a QMID is not known,
    the names have to do.
    """
    if mode is not ReconnectMode.Q_MGR:
        return None
    if before.identifier and now.identifier:
        same = before.identifier == now.identifier
        detail = f"It has the QMID {now.identifier}, and the one before {before.identifier}"
    else:
        same = before.name.rstrip() == now.name.rstrip()
        detail = f"It is called {now.name}, and the one before {before.name}"
    return None if same else error_for(Reason.RECONNECT_QMID_MISMATCH, "MQCONNX", queue_manager=now.name, detail=detail)


def unreplayable(mode: ReconnectMode, subscription: SubscribeOption) -> Reason:
    """Return the reason why such a subscription cannot be had where any queue manager will do (2555), or `Reason.NONE`.

    Better told at the call than found out after a failover: a durable one belongs to one queue manager (q045540), and so does
    the queue of a managed one, which the workers of a listener get from on connections of their own.
    """
    bound = subscription & (SubscribeOption.DURABLE | SubscribeOption.MANAGED)
    return Reason.RECONNECT_Q_MGR_REQD if mode is ReconnectMode.ANY and bound else Reason.NONE


def gone(entry: Opened) -> tuple[str, ...]:
    """Return what the handle had and has no more once it is open again, for a person: an empty tuple for a plain one.

    The context that the last get saved is not among it: it went with the unit of work, which is told.
    """
    match entry:
        case Subscription():
            return () if entry.durable else ("publications since the connection was lost",)
        case Object():
            return (
                *(said for option, said in _GONE if entry.options & option),
                *(("the messages on the temporary queue",) if entry.temporary else ()),
            )
        case _:
            assert_never(entry)


_GONE: Final = (
    (OpenOption.BROWSE, "the place of the browse cursor, with its lock and its marks"),
    (OpenOption.READ_AHEAD, "messages that were read ahead"),
)
"""What belongs to a connection and not to an object (q017800, and what is recalled of it)."""


def _step(entry: Opened, made: set[str], refused: set[int]) -> Step:
    match entry:
        case Subscription():
            if entry.queue in refused:
                return _refused(entry, "The queue that its publications go to is not open again")
            return Subscribe(entry, replace(entry.descriptor, options=_again(entry)))
        case Object(made_the_queue=True, temporary=True):
            return Open(entry, entry.name, entry.opened_name)
        case Object(temporary=True) if (entry.opened_name or entry.name) not in made:
            return _refused(entry, "It was a temporary queue of another connection, or of a handle that is closed, and is gone")
        case Object():
            return Open(entry, entry.opened_name or entry.name)
        case _:
            assert_never(entry)


def _again(entry: Subscription) -> SubscribeOption:
    options = entry.descriptor.options & ~(SubscribeOption.CREATE | SubscribeOption.RESUME | SubscribeOption.ALTER)
    return options | (SubscribeOption.RESUME if entry.durable else SubscribeOption.CREATE)


def _refused(entry: Opened, why: str) -> Refused:
    match entry:
        case Subscription():
            verb, name = "MQSUB", entry.descriptor.name or entry.descriptor.topic_string or entry.descriptor.object_string
        case Object():
            verb, name = "MQOPEN", entry.opened_name or entry.name
        case _:
            assert_never(entry)
    return Refused(entry, error_for(Reason.RECONNECT_FAILED, verb, name, detail=f"{why}. {entry.owner} is without it"))
