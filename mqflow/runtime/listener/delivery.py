"""The records that a worker passes to a handler, and that the application passes to a listener.

Because of these records, the runtime does not depend on codecs and signatures of handlers, and the application does not depend
on sessions and settlements.
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
"""The function that makes the backout decision: `policy.poison.backout.decide`, or a function of the application."""


class Delivery:
    """One message for a handler, in the unit of work of the worker's session."""

    __slots__ = (
        "calls", "decision", "ended", "ended_at", "got", "handled_s", "is_over", "kept_puts", "listener", "on_thread",
        "put_is_unknown", "put_message_ids", "queue", "rest", "running", "session", "started", "trace_id",
    )  # fmt: skip

    def __init__(self, got: Got, queue: str, listener: str, session: Session) -> None:
        self.got: Final = got
        self.queue: Final = queue
        self.listener: Final = listener
        #: The session, for the puts of the handler in the same unit of work.
        self.session: Final = session
        #: The backout decision about this message, if it was backed out before.
        self.decision: Decided | None = None
        #: True if the handling has ended or was cancelled. If code of the handler still runs, it has no unit of work any more.
        self.is_over: bool = False
        #: The seconds that the handling took, set at its end. The first delivery of a batch has the seconds of the whole batch.
        self.handled_s: float = 0.0
        #: The time when the handling ended on the event loop, in monotonic seconds.
        self.ended: float = 0.0
        #: The async calls that the handler must await. For each: the coroutine, its name, and the code and instruction of the
        #: call.
        self.calls: list[tuple[Any, str, CodeType, int]] = []
        #: Only if decisions are recorded: the time when the handling ended, in seconds since 1970; 0 if there was no handling.
        self.ended_at: float = 0.0
        #: The puts of the handler, in order. They are made only when the handler has returned, so a failed handler puts
        #: nothing.
        self.kept_puts: list[Callable[[], Put]] = []
        #: The MsgIds of the messages that were put in this unit of work.
        self.put_message_ids: list[bytes] = []
        #: True if the handler has abandoned a put before its end. Nobody knows whether such a put took effect.
        self.put_is_unknown: bool = False
        #: The coroutine of the handler, or the identity of its thread. It is used to read the stack of a stuck handler.
        self.running: object = None
        #: True if the handler runs on the thread of the session now, and not on the event loop.
        self.on_thread: bool = False
        #: The time when the handling began on the thread of the session, in monotonic seconds; None if it did not begin there.
        self.started: float | None = None
        #: Finishes the handling on the event loop, if it began on the thread of the session but did not complete there;
        #: otherwise None.
        self.rest: Callable[[], Awaitable[Outcome | None]] | None = None
        #: The identifier of the handling's trace, 32 hexadecimal digits; empty without tracing.
        self.trace_id: str = ""

    def begin_again(self) -> None:
        """Prepare another call of the handler in the same unit of work. The previous call has put nothing."""
        self.is_over = False
        self.calls.clear()
        self.kept_puts.clear()

    @property
    def has_begun(self) -> bool:
        """True if the handling has begun, even if it has not ended. Decoding is part of the handling."""
        return self.is_over or self.started is not None

    @property
    def has_puts(self) -> bool:
        """True if messages of this delivery's handler are, or may be, in the unit of work."""
        return self.put_is_unknown or bool(self.put_message_ids)


def put_kept(delivery: Delivery) -> None:
    """Make the puts that the handler has asked for, on the thread of the session. Add each MsgId to `put_message_ids`.

    Raises the `MQIError` of the first put that is refused. The puts before it are in the unit of work.
    """
    for put in delivery.kept_puts:
        delivery.put_message_ids.append(put().descriptor.message_id)


Handle = Callable[[Sequence[Delivery]], Awaitable[Outcome | None]]
"""Handles one message or a batch. Returns an outcome, or None for "completed", or raises an exception."""


Witness = Callable[[Decided, Delivery], Awaitable[None]]
"""Receives a backout decision before it is carried out. Puts that it adds to the delivery become part of the move."""


class ListenerSpec(Struct, frozen=True, kw_only=True):
    """The declaration of a listener, in the form for the runtime."""

    name: str
    #: The name of the queue; for a subscription, the topic.
    queue: str
    #: The topic that the listener subscribes to; None if it gets from a queue.
    subscription: TopicSubscription | None = None
    #: A selection string that selects some messages of the queue; empty for all messages.
    selection: str = ""
    handle: Handle
    #: True if `handle` needs no event loop while the handler completes, so that the thread of a session can call it.
    handles_on_thread: bool = False
    #: Decides about a message that was backed out.
    decide: Decide
    #: The functions that receive each decision, one after the other.
    decided: Sequence[Witness] = ()
    behaviour: Behaviour = Behaviour.JMS_LISTENER
    #: The number of workers. Each worker has its own session and unit of work.
    concurrency: int = 1
    #: The largest number of messages in one unit of work.
    unit_of_work: int = 1
    #: True if one call of the handler gets all messages of a unit of work.
    handles_batch: bool = False
    #: True if a unit of work is one message group, in logical order, and one call of the handler gets all of it.
    handles_groups: bool = False
    #: The milliseconds that a unit of work waits for more messages after its first message.
    linger_ms: int = 0
    #: True if the queue is opened exclusively, and only one message at a time is handled.
    strict_order: bool = False
    #: `threshold` and `backout_queue` replace BOTHRESH and BOQNAME; None means the attribute of the queue.
    threshold: int | None = None
    backout_queue: str | None = None
    pace: Pace = Pace()
    never_retry: tuple[type[BaseException], ...] = ()
    #: True if the sender of a request gets an answer if its request is moved or discarded.
    answers_requests: bool = True
    #: True if a message that cannot be decoded is delivered again up to the threshold; false if its first failure moves it.
    redeliver_undecodable: bool = False
    #: The seconds that one call of the handler may take; None for no limit.
    time_limit_s: float | None = None
    #: The seconds after which a running handler is reported with its stack.
    stuck_after_s: float = 60.0
    #: If `rate_limit` or `breaker` is set, the workers get messages through a `Gate`, one worker after the other.
    rate_limit: RateLimit | None = None
    breaker: CircuitBreaker | None = None
