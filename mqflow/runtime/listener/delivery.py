"""The records that a worker passes to a handler, and that the application passes to a listener.

With these records, the runtime does not depend on codecs and signatures. The application does not depend on sessions and
settlements.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

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
    """One message for a handler, in the unit of work of its session."""

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
        #: The session that the handler's own puts use, in the same unit of work.
        self.session: Final = session
        #: The backout decision, if the message was backed out before.
        self.decision: Decided | None = None
        #: Whether the handling has ended or was cancelled. Code of the handler that still runs then has no unit of work.
        self.is_over = False
        #: The seconds that the handling took; for a batch, the seconds of the whole batch. Set when the handling ends.
        self.handled_s = 0.0
        #: The MsgIds of the messages that the handler has put in this unit of work.
        self.put_message_ids: list[bytes] = []
        #: The coroutine of the handler, or the identity of its thread: from this, the stack of a stuck handler is read.
        self.running: object = None
        #: The identifier of the handling's trace, as 32 hexadecimal digits; empty without tracing.
        self.trace_id = ""


Handle = Callable[[Sequence[Delivery]], Awaitable[Outcome | None]]
"""Handles a unit (one message or a batch). Returns an outcome, or None for "completed", or raises an exception."""


class ListenerSpec(Struct, frozen=True, kw_only=True):
    """The declaration of a listener, in the form that the runtime needs."""

    name: str
    #: The queue; for a subscription, the topic.
    queue: str
    #: The topic that the listener subscribes to; None if it gets from a queue.
    subscription: TopicSubscription | None = None
    #: A selection string that selects messages of the queue; empty for all messages.
    selection: str = ""
    handle: Handle
    #: Decides what to do with a message that was backed out.
    decide: Decide
    behaviour: Behaviour = Behaviour.JMS_LISTENER
    #: The number of workers; each has a session and a unit of work of its own.
    concurrency: int = 1
    #: The largest number of messages in one unit of work.
    unit_of_work: int = 1
    #: Whether one call of the handler takes the whole unit.
    handles_batch: bool = False
    #: Milliseconds that a unit waits for more messages after its first message.
    linger_ms: int = 0
    #: Whether the queue is opened exclusively, with one message in flight.
    strict_order: bool = False
    #: `threshold` and `backout_queue` override BOTHRESH and BOQNAME; None means the attribute of the queue.
    threshold: int | None = None
    backout_queue: str | None = None
    pace: Pace = Pace()
    never_retry: tuple[type[BaseException], ...] = ()
    #: Whether the sender of a request gets an answer if its request is moved or discarded.
    answers_requests: bool = True
    #: Whether a message that cannot be decoded is redelivered up to the threshold. Otherwise its first failure moves it.
    redeliver_undecodable: bool = False
    #: Seconds that one call of the handler may take; None for no limit.
    time_limit_s: float | None = None
    #: Seconds after which a running handler is reported with its stack.
    stuck_after_s: float = 60.0
