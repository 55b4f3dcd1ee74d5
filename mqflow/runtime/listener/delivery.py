"""The records that a worker passes to a handler, and that the application passes to a listener.

With these records, the runtime does not depend on codecs and signatures. The application does not depend on sessions and
settlements.
"""

from collections.abc import Awaitable, Callable, Sequence
from types import CodeType
from typing import Any, Final

from msgspec import Struct

from mqflow.events import Decided
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.circuit_breaker import CircuitBreaker
from mqflow.policy.poison.disposition import Behaviour, Disposition, Outcome
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.policy.rate_limit import RateLimit
from mqflow.runtime.connection.session import Session
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Got, Put

__all__ = ("Decide", "Delivery", "Handle", "ListenerSpec", "Witness", "put_kept")

Decide = Callable[[MessageDescriptor, QueueAttributes, str, Behaviour], tuple[Disposition, ...]]
"""The backout decision: `policy.poison.backout.decide`, or the application's own."""


class Delivery:
    """One message for a handler, in the unit of work of its session."""

    __slots__ = (
        "calls",
        "decision",
        "ended_at",
        "got",
        "handled_s",
        "is_over",
        "kept_puts",
        "listener",
        "on_thread",
        "put_is_unknown",
        "put_message_ids",
        "queue",
        "rest",
        "running",
        "session",
        "started",
        "trace_id",
    )

    def __init__(self, got: Got, queue: str, listener: str, session: Session) -> None:
        self.got: Final = got
        self.queue: Final = queue
        self.listener: Final = listener
        #: The session for the handler's own puts, in the same unit of work.
        self.session: Final = session
        #: The backout decision, if the message was backed out before.
        self.decision: Decided | None = None
        #: True if the handling has ended or was cancelled. Code of the handler that still runs then has no unit of work.
        self.is_over: bool = False
        #: The seconds that the handling took, set at its end. The first delivery of a batch has the seconds of the whole batch.
        self.handled_s: float = 0.0
        #: The async calls of the handler that it must await: the coroutine, its name, and the code and instruction of the call.
        self.calls: list[tuple[Any, str, CodeType, int]] = []
        #: When the handling ended, in seconds of the wall clock; 0 if no handler got the message.
        self.ended_at: float = 0.0
        #: The puts of the handler, in order. They are made when the handler has returned, so a failed handler has put nothing.
        self.kept_puts: list[Callable[[], Put]] = []
        #: The MsgIds of the messages that were put in this unit of work.
        self.put_message_ids: list[bytes] = []
        #: True if the handler abandoned a put before it had ended: nobody knows whether it took effect.
        self.put_is_unknown: bool = False
        #: The coroutine of the handler, or the identity of its thread: from this, the stack of a stuck handler is read.
        self.running: object = None
        #: True if the handler runs on the thread of the session now, and not on the event loop.
        self.on_thread: bool = False
        #: When the handling began on the thread of the session, in monotonic seconds; None if it did not begin there.
        self.started: float | None = None
        #: The rest of a handling that began on the thread of the session, for the event loop.
        self.rest: Callable[[], Awaitable[Outcome | None]] | None = None
        #: The identifier of the handling's trace, as 32 hexadecimal digits; empty without tracing.
        self.trace_id: str = ""

    def begin_again(self) -> None:
        """Prepare another call of the handler in the same unit of work. The call before has put nothing."""
        self.is_over = False
        self.calls.clear()
        self.kept_puts.clear()

    @property
    def has_puts(self) -> bool:
        """True if the unit of work has, or can have, messages that the handler of this delivery has put."""
        return self.put_is_unknown or bool(self.put_message_ids)


def put_kept(delivery: Delivery) -> None:
    """Make the puts that the handler asked for, on the thread of the session. Add each MsgId to `put_message_ids`.

    Raises the `MQIError` of the first put that is refused. The puts before it are in the unit of work.
    """
    for put in delivery.kept_puts:
        delivery.put_message_ids.append(put().descriptor.message_id)


Handle = Callable[[Sequence[Delivery]], Awaitable[Outcome | None]]
"""Handles a unit (one message or a batch). Returns an outcome, or None for "completed", or raises an exception."""


Witness = Callable[[Decided, Delivery], Awaitable[None]]
"""Receives a backout decision before it is carried out. The puts that it keeps in the delivery are part of the move."""


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
    #: True if `handle` needs no event loop as long as the handler completes: then the thread of a session can run it.
    handles_on_thread: bool = False
    #: Decides what to do with a message that was backed out.
    decide: Decide
    #: Receive each decision, one after the other.
    decided: Sequence[Witness] = ()
    behaviour: Behaviour = Behaviour.JMS_LISTENER
    #: The number of workers; each has a session and a unit of work of its own.
    concurrency: int = 1
    #: The largest number of messages in one unit of work.
    unit_of_work: int = 1
    #: True if one call of the handler takes the whole unit.
    handles_batch: bool = False
    #: True if a unit is one message group, in logical order, and one call of the handler takes it.
    handles_groups: bool = False
    #: Milliseconds that a unit waits for more messages after its first message.
    linger_ms: int = 0
    #: True if the queue is opened exclusively, with one message in flight.
    strict_order: bool = False
    #: `threshold` and `backout_queue` override BOTHRESH and BOQNAME; None means the attribute of the queue.
    threshold: int | None = None
    backout_queue: str | None = None
    pace: Pace = Pace()
    never_retry: tuple[type[BaseException], ...] = ()
    #: True if the sender of a request gets an answer if its request is moved or discarded.
    answers_requests: bool = True
    #: True if a message that cannot be decoded is redelivered up to the threshold. Otherwise its first failure moves it.
    redeliver_undecodable: bool = False
    #: Seconds that one call of the handler may take; None for no limit.
    time_limit_s: float | None = None
    #: Seconds after which a running handler is reported with its stack.
    stuck_after_s: float = 60.0
    #: With one of them, the workers get through a `Gate`, one after the other.
    rate_limit: RateLimit | None = None
    breaker: CircuitBreaker | None = None
