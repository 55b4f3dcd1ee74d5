"""What travels from a worker to a handler, and what a listener is told by the application.

Records and a protocol: the runtime knows neither codecs nor signatures, the application neither sessions nor settlement.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from mqflow.events import Decided
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.disposition import Behaviour, Disposition, Outcome
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Got

__all__ = ("Decide", "Delivery", "Handle", "ListenerSpec")

Decide = Callable[[MessageDescriptor, QueueAttributes, str, Behaviour], tuple[Disposition, ...]]
"""The backout decision: `policy.poison.backout.decide`, or the application's own."""


class Delivery:
    """One message on its way to a handler, in the unit of work of its session."""

    __slots__ = (
        "decision",
        "got",
        "handled_s",
        "is_over",
        "listener",
        "put_message_ids",
        "queue",
        "running",
        "session",
        "trace_id",
    )

    def __init__(self, got: Got, queue: str, listener: str, session: Session) -> None:
        self.got: Final = got
        self.queue: Final = queue
        self.listener: Final = listener
        #: Where the handler's own puts go, in the same unit of work.
        self.session: Final = session
        #: The backout decision, where the message had been backed out before.
        self.decision: Decided | None = None
        #: Its handling has ended, or was cut off: what still runs of it has no unit of work any more.
        self.is_over = False
        #: How long it took, of a batch the whole batch, once it is over.
        self.handled_s = 0.0
        #: What the handler has put in this unit of work.
        self.put_message_ids: list[bytes] = []
        #: What runs the handler: its coroutine, or the identity of its thread. For naming a stuck one.
        self.running: Any = None
        #: The trace that its handling belongs to, as 32 hexadecimal digits; empty where nobody traces.
        self.trace_id = ""


Handle = Callable[[Sequence[Delivery]], Awaitable[Outcome | None]]
"""Handles a unit (of one, or a batch); returns an outcome or None for "completed", or raises."""


class ListenerSpec(Struct, frozen=True, kw_only=True):
    """A listener as declared: what the runtime needs to know of it."""

    name: str
    #: The queue; of a subscription, its topic.
    queue: str
    #: What it subscribes to, rather than gets from a queue of its own.
    subscription: TopicSubscription | None = None
    #: A selection string: which messages of the queue; empty for all.
    selection: str = ""
    handle: Handle
    #: What says what becomes of a message that was backed out.
    decide: Decide
    behaviour: Behaviour = Behaviour.JMS_LISTENER
    #: Workers: each has a session, so a unit of work, of its own.
    concurrency: int = 1
    #: Messages got in one unit of work, at the most.
    unit_of_work: int = 1
    #: The handler takes the whole unit at once.
    handles_batch: bool = False
    #: How long a unit waits for more after its first message.
    linger_ms: int = 0
    #: Exclusive open, one message in flight.
    strict_order: bool = False
    #: Override BOTHRESH and BOQNAME; None leaves it to the queue.
    threshold: int | None = None
    backout_queue: str | None = None
    pace: Pace = Pace()
    never_retry: tuple[type[BaseException], ...] = ()
    #: Redeliver a message that does not decode up to the threshold, rather than dispose of it at once.
    redeliver_undecodable: bool = False
    #: How long one handling may take; None is for ever.
    time_limit_s: float | None = None
    #: After how long a handler that still runs is named with its stack.
    stuck_after_s: float = 60.0
