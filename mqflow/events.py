"""What happened, as frozen records. The runtime makes them, hooks read them; a hook can change nothing.

Every record names the queue and, where it is about one message, its MsgId. Whoever writes an event down stamps the time.
Pure: knows the records of the two floors below.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from mqflow.policy.dead_letters.actions import Intent
from mqflow.policy.poison.disposition import Disposition, Outcome, Settlement

__all__ = (
    "Attempt",
    "ConnectionTried",
    "DeadLetterActed",
    "Decided",
    "DelayProcessorStarted",
    "DelayProcessorStopped",
    "DelayedDelivered",
    "DelayedRefused",
    "Delivered",
    "Disposed",
    "Event",
    "HandlerStuck",
    "Hook",
    "HookFailed",
    "InDoubt",
    "ListenerPaused",
    "ListenerResumed",
    "ListenerStarted",
    "ListenerStopped",
    "ReadinessChanged",
    "Reconnected",
    "Reconnecting",
    "ReopenRefused",
    "ReportSent",
    "Settled",
    "WaitsOnQueue",
    "Warned",
)


class Delivered(Struct, frozen=True, kw_only=True, tag=True):
    """A message was got and is about to be decided about and handled."""

    queue: str
    message_id: bytes
    listener: str
    backout_count: int
    body_bytes: int


class Decided(Struct, frozen=True, kw_only=True, tag=True):
    """A backout decision was taken: a message had been backed out before, or its handling just failed."""

    queue: str
    message_id: bytes
    listener: str
    #: The count the decision was taken on: BackoutCount, or BackoutCount + 1 at the moment of a failure.
    backout_count: int
    threshold: int
    backout_requeue_queue: str
    #: Where the two settings came from: "BOTHRESH of ORDERS.IN", "listener", "default" ...
    threshold_source: str
    queue_source: str
    plan: tuple[Disposition, ...]
    #: What led to it, where the handling did.
    outcome: Outcome | None = None


class Attempt(Struct, frozen=True):
    """One destination of a plan that was tried."""

    disposition: Disposition
    #: 0 where it held; else the reason the put was refused with.
    reason: int = 0
    detail: str = ""


class Disposed(Struct, frozen=True, kw_only=True, tag=True):
    """A plan was carried out, destination by destination; the last attempt held."""

    queue: str
    message_id: bytes
    listener: str
    backout_count: int
    attempts: tuple[Attempt, ...]
    outcome: Outcome | None = None

    @property
    def disposition(self) -> Disposition:
        """What became of the message."""
        return self.attempts[-1].disposition


class Settled(Struct, frozen=True, kw_only=True, tag=True):
    """A unit of work ended as it was meant to."""

    queue: str
    listener: str
    settlement: Settlement
    message_ids: tuple[bytes, ...]
    #: What the handling came to; None where nothing was handled: the message was found poison before, or only got to be staged.
    outcome: Outcome | None
    #: How long handlers ran, also those that failed or were cut off; 0 where none did.
    handled_s: float = 0.0


class WaitsOnQueue(Struct, frozen=True, kw_only=True, tag=True):
    """A message whose handler asked for a long pause is on the staging queue, and no worker waits for it."""

    queue: str
    message_id: bytes
    listener: str
    #: How often it has been backed out, this time included.
    backout_count: int
    after_s: float
    staging_queue: str


class InDoubt(Struct, frozen=True, kw_only=True, tag=True):
    """A commit got no answer: the unit of work may be committed or backed out. It is never repeated."""

    queue: str
    listener: str
    reason: int
    message_ids: tuple[bytes, ...]
    put_message_ids: tuple[bytes, ...] = ()


class ReportSent(Struct, frozen=True, kw_only=True, tag=True):
    """An exception report was put, or where `reason` is not 0, refused by its queue: then the dead-letter queue has it.

    Where there is none, nobody has it; nor of a delayed message that is not persistent, where the dead-letter queue refuses.
    """

    queue: str
    message_id: bytes
    reply_to_queue: str
    feedback: int
    reason: int = 0


class ListenerStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A listener has opened its queue on all its workers."""

    queue: str
    listener: str
    concurrency: int


class ListenerStopped(Struct, frozen=True, kw_only=True, tag=True):
    """A listener's workers have all ended."""

    queue: str
    listener: str


class ListenerPaused(Struct, frozen=True, kw_only=True, tag=True):
    """A worker waits before it gets again; the message, if one is named, stays on its queue meanwhile."""

    queue: str
    listener: str
    why: str
    delay_s: float
    message_id: bytes = b""
    reason: int = 0


class ListenerResumed(Struct, frozen=True, kw_only=True, tag=True):
    """What made a listener pause is over."""

    queue: str
    listener: str


class HandlerStuck(Struct, frozen=True, kw_only=True, tag=True):
    """A handler has run longer than it should have; where it stands."""

    queue: str
    listener: str
    message_id: bytes
    running_s: float
    stack: str


class Reconnecting(Struct, frozen=True, kw_only=True, tag=True):
    """A connection was lost and is to be had again (attempt 0), or an attempt at that failed."""

    queue_manager: str
    #: Passes over all there is to try, from 1, since the connection was lost.
    attempt: int
    reason: int
    #: How long was waited before this attempt.
    delay_s: float
    #: How long ago the connection was lost.
    lost_for_s: float = 0.0
    #: How long until the next attempt; 0 where there is none, or nobody knows yet.
    next_in_s: float = 0.0


class ConnectionTried(Struct, frozen=True, kw_only=True, tag=True):
    """A connection was tried to be had, the first ones of an application too: one address of a channel table, or the URL."""

    queue_manager: str
    #: The entry of the table; empty where a URL, or IBM's client, says where.
    channel: str = ""
    #: "mq.example(1414)"; empty as above.
    address: str = ""
    #: Which pass after a lost connection it belongs to, from 1; 0 where none is lost.
    attempt: int = 0
    #: How long was waited before that pass.
    delay_s: float = 0.0
    #: 0 where the connection was had.
    reason: int = 0
    detail: str = ""


class Reconnected(Struct, frozen=True, kw_only=True, tag=True):
    """Everybody who had lost a connection has one again, with every object open that was not refused (`ReopenRefused`)."""

    queue_manager: str
    generation: int
    #: What is open again, in the order of first opening, each name once.
    objects: tuple[str, ...]
    #: What some of them had and have no more: "Prices/#: publications since the connection was lost".
    gone: tuple[str, ...] = ()
    attempts: int
    #: From the loss of the first connection until now.
    downtime_ms: float


class ReopenRefused(Struct, frozen=True, kw_only=True, tag=True):
    """After an outage an object could not be opened again. Its owner tries again when it needs it; everybody else goes on."""

    queue_manager: str
    object: str
    #: Who does without: "listener ORDERS.IN".
    owner: str
    reason: int
    detail: str = ""


class ReadinessChanged(Struct, frozen=True, kw_only=True, tag=True):
    """Whether the application takes work has changed: it does while every listener has its queue open on all its workers."""

    ready: bool
    #: What is missing; empty while it starts or stops too.
    missing: tuple[str, ...] = ()


class DelayProcessorStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A delay processor has opened the staging queue; messages that are due are delivered."""

    queue: str


class DelayProcessorStopped(Struct, frozen=True, kw_only=True, tag=True):
    """A delay processor cannot go on, and says why; it starts again by itself when it can."""

    queue: str
    why: str
    reason: int


class DelayedDelivered(Struct, frozen=True, kw_only=True, tag=True):
    """A delayed message was put where it is for. It is there when the unit of work, which ends next, is committed."""

    #: Where it was put: the target, not the staging queue.
    queue: str
    message_id: bytes
    delay_ms: int
    #: How long after it was due.
    late_ms: int


class DelayedRefused(Struct, frozen=True, kw_only=True, tag=True):
    """A delayed message was refused by its queue when it was due; what became of it instead. `Return` is: tried again later."""

    queue: str
    message_id: bytes
    disposition: Disposition
    #: The reason of the refused put, and its sentence.
    reason: int
    detail: str = ""


class Warned(Struct, frozen=True, kw_only=True, tag=True):
    """Something an operator should know, in a sentence: a queue without backout settings, a handle that leaked."""

    text: str
    queue: str = ""
    details: Mapping[str, str] = field(default_factory=dict[str, str])


class DeadLetterActed(Struct, frozen=True, kw_only=True, tag=True):
    """The DLQ handler applied a rule to a dead letter; where `reason` is not 0, in vain, and the message stays for now.

    A message that is left where it is is told of once.
    """

    queue: str
    message_id: bytes
    #: Which rule, "line 12" or a function's name; empty where none is left that matches.
    rule: str
    intent: Intent
    #: How many attempts there have been on the message, this one included.
    attempt: int
    #: Why the put was refused, or the unit of work backed out.
    reason: int = 0
    detail: str = ""
    #: Refused by the queue and for the reason that the MQDLH names: nothing new.
    repeated: bool = False


class HookFailed(Struct, frozen=True, kw_only=True, tag=True):
    """A hook raised; the message it was told about is not touched by that."""

    hook: str
    error: str
    event: str


Event = (
    Delivered
    | Decided
    | Disposed
    | Settled
    | WaitsOnQueue
    | InDoubt
    | ReportSent
    | DelayProcessorStarted
    | DelayProcessorStopped
    | DelayedDelivered
    | DelayedRefused
    | ListenerStarted
    | ListenerStopped
    | ListenerPaused
    | ListenerResumed
    | HandlerStuck
    | Reconnecting
    | ConnectionTried
    | Reconnected
    | ReopenRefused
    | ReadinessChanged
    | Warned
    | DeadLetterActed
    | HookFailed
)


class Hook(Protocol):
    """Told about every event, in order, on the event loop's thread. What it raises becomes a `HookFailed`, once."""

    def __call__(self, event: Event) -> None:
        """Take note. Must not block."""
        ...
