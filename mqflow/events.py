"""The events of an application, as frozen records. The runtime makes the records; hooks read them and cannot change them.

A record about a queue names the queue, and a record about one message also names its MsgId. No record has a time: a hook that
stores an event adds the time. This file only defines records, and has no effects.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from mqflow.policy.dead_letters.intents import Intent
from mqflow.policy.poison.disposition import Disposition, Outcome, Settlement

__all__ = (
    "Attempt", "BreakerHalfOpened", "ConnectionTried", "ConsumerFailed", "DeadLetterActed", "Decided",
    "DelayProcessorStarted", "DelayProcessorStopped", "DelayedDelivered", "DelayedRefused", "Delivered", "Disposed",
    "Draining", "Edited", "Event", "HandlerRuns", "HandlerStuck", "Hook", "HookFailed", "InDoubt", "ListenerPaused",
    "ListenerResumed", "ListenerStarted", "ListenerStopped", "ReadinessChanged", "Reconnected", "Reconnecting",
    "ReopenRefused", "ReportSent", "ScheduleFired", "Settled", "WaitsOnQueue", "Warned",
)  # fmt: skip


class Delivered(Struct, frozen=True, kw_only=True, tag=True):
    """A worker got a message. If it was backed out before, a backout decision comes next; otherwise the handler runs."""

    queue: str
    message_id: bytes
    listener: str
    backout_count: int
    body_bytes: int


class Decided(Struct, frozen=True, kw_only=True, tag=True):
    """A backout decision: what to do with a message that was backed out before, or whose handling has just failed."""

    queue: str
    message_id: bytes
    listener: str
    #: The count that is compared with the threshold: BackoutCount, or BackoutCount + 1 if the handling has just failed.
    backout_count: int
    threshold: int
    backout_requeue_queue: str
    #: The places that set the threshold and the backout queue: "BOTHRESH of ORDERS.IN", "listener", "default" ...
    threshold_source: str
    queue_source: str
    #: The dispositions to try, in this order, until one succeeds.
    plan: tuple[Disposition, ...]
    #: The outcome that led to the decision; None if the message was found poison before its handling.
    outcome: Outcome | None = None
    #: True if mqflow knows of no earlier failure of the message.
    is_first_failure: bool = False
    #: The number of the worker in its listener and process, from 0.
    worker: int = 0
    #: The trace of the handling, 32 hexadecimal digits; empty without tracing.
    trace_id: str = ""


class Attempt(Struct, frozen=True):
    """An attempt to carry out one disposition of a plan (see `Decided.plan`)."""

    disposition: Disposition
    #: 0 after a success, otherwise the reason of the refused put.
    reason: int = 0
    detail: str = ""


class Disposed(Struct, frozen=True, kw_only=True, tag=True):
    """The plan of a `Decided` was carried out. Its dispositions were tried in order, and the last attempt succeeded."""

    queue: str
    message_id: bytes
    listener: str
    backout_count: int
    attempts: tuple[Attempt, ...]
    outcome: Outcome | None = None
    #: As in `Decided`.
    worker: int = 0
    trace_id: str = ""

    @property
    def disposition(self) -> Disposition:
        """The disposition that succeeded."""
        return self.attempts[-1].disposition


class Settled(Struct, frozen=True, kw_only=True, tag=True):
    """A unit of work was committed or backed out, so the deliveries of its messages have ended.

    If `settlement` is COMMIT and the outcome is not `Completed`, the unit of work moved the messages to another queue, or
    discarded them.
    """

    queue: str
    listener: str
    settlement: Settlement
    #: The MsgIds of the messages with this outcome. A message that the unit of work moves or discards has an event of its own.
    #: The other messages of the unit have one event together.
    message_ids: tuple[bytes, ...]
    #: The outcome of the handling. None if there was no handling, because the message was found poison.
    outcome: Outcome | None
    #: The other messages of the unit of work, which were backed out because a message of `message_ids` failed.
    others: tuple[bytes, ...] = ()
    #: The seconds that the handlers ran, including failed and cancelled handlers; 0 if no handler ran.
    handled_s: float = 0.0
    #: The seconds from the request of the commit to its answer. If the request also contains the next get, the time of the get
    #: counts too. Only `mqflow run --http` measures this time, and only for completed messages; otherwise 0.
    settle_s: float = 0.0


class WaitsOnQueue(Struct, frozen=True, kw_only=True, tag=True):
    """A handler asked for a long pause before the next delivery. Its message is on the staging queue, and no worker waits."""

    queue: str
    message_id: bytes
    listener: str
    #: The number of backouts of the message, this backout included.
    backout_count: int
    after_s: float
    staging_queue: str


class InDoubt(Struct, frozen=True, kw_only=True, tag=True):
    """A commit got no answer: nobody knows whether the unit of work was committed or backed out. The commit is not repeated."""

    queue: str
    listener: str
    reason: int
    message_ids: tuple[bytes, ...]
    put_message_ids: tuple[bytes, ...] = ()


class ReportSent(Struct, frozen=True, kw_only=True, tag=True):
    """An exception report was put for the sender of a failed message. If `reason` is not 0, the reply queue refused the report.

    A refused report goes to the dead-letter queue. Without a dead-letter queue the report is lost. The report on a
    non-persistent delayed message is also lost if the dead-letter queue refuses the report.

    The sender of a request gets a report as the answer, even if the sender did not ask for reports. If the reply queue refuses
    such an answer, the answer is dropped.
    """

    queue: str
    message_id: bytes
    reply_to_queue: str
    feedback: int
    reason: int = 0


class ListenerStarted(Struct, frozen=True, kw_only=True, tag=True):
    """All workers of a listener have tried to open its queue. A worker whose open was refused tries again later."""

    queue: str
    listener: str
    concurrency: int


class ListenerStopped(Struct, frozen=True, kw_only=True, tag=True):
    """All workers of a listener have ended."""

    queue: str
    listener: str


class ListenerPaused(Struct, frozen=True, kw_only=True, tag=True):
    """A worker waits before its next get. If the event names a message, this message stays on its queue during the wait."""

    queue: str
    listener: str
    why: str
    delay_s: float
    message_id: bytes = b""
    reason: int = 0


class ListenerResumed(Struct, frozen=True, kw_only=True, tag=True):
    """The cause of a listener's pause has ended, and the listener gets messages again."""

    queue: str
    listener: str


class BreakerHalfOpened(Struct, frozen=True, kw_only=True, tag=True):
    """The pause of an open circuit breaker is over. One message is tried; its outcome closes the breaker or opens it again."""

    queue: str
    message_id: bytes
    listener: str


class ConsumerFailed(Struct, frozen=True, kw_only=True, tag=True):
    """A worker, a listener or a service ended unexpectedly, while the application runs. It starts again after a pause.

    The cause is a defect of mqflow or of a plugin, or code of the application that cancels tasks of mqflow. If the worker,
    listener or service held a unit of work, its connection ended, so the queue manager backed out the unit of work.
    """

    #: The name of the worker, listener or service, for people.
    consumer: str
    queue: str
    #: The exception in one line, and its whole traceback.
    error: str
    traceback: str
    #: The number of failures in a row. A failure counts in the row if it comes less than a minute after the last start.
    failures: int
    restarts_in_s: float


class HandlerStuck(Struct, frozen=True, kw_only=True, tag=True):
    """A handler has run for longer than its limit; `stack` shows the code that it runs."""

    queue: str
    listener: str
    message_id: bytes
    running_s: float
    stack: str


class HandlerRuns(Struct, frozen=True, kw_only=True):
    """A handler that still runs while the application stops."""

    queue: str
    listener: str
    message_id: bytes
    running_s: float
    #: The innermost frame of the application in the handler's stack, as `file:line in function`; empty if unknown.
    frame: str


class Draining(Struct, frozen=True, kw_only=True, tag=True):
    """The application stops, and waits for handlers to finish. The event comes every second while the application waits."""

    #: Seconds until the handlers are cancelled.
    left_s: float
    handlers: tuple[HandlerRuns, ...]
    #: The listeners and services that have not ended. Each of them runs a handler, or settles its last unit of work.
    waits_for: tuple[str, ...]


class Reconnecting(Struct, frozen=True, kw_only=True, tag=True):
    """An attempt to reconnect failed. Attempt 0: a connection was lost, or the first connect failed; reconnecting begins."""

    queue_manager: str
    #: The number of attempts since the connection was lost. An attempt tries all addresses of the queue manager once.
    attempt: int
    reason: int
    #: Seconds of the wait before this attempt.
    delay_s: float
    #: Seconds since the connection was lost.
    lost_for_s: float = 0.0
    #: Seconds until the next attempt; 0 if no attempt follows, or if the time of the next attempt is not known yet.
    next_in_s: float = 0.0
    #: False if the application starts and waits for its first connection. Only attempt 0 sets this field.
    was_connected: bool = True


class ConnectionTried(Struct, frozen=True, kw_only=True, tag=True):
    """The application tried to connect, for the first time or again: to one address of a channel table, or to the URL."""

    queue_manager: str
    #: The channel of the entry in the channel table; empty if a URL or IBM's client names the address.
    channel: str = ""
    #: The address, for example "mq.example(1414)"; empty if a URL or IBM's client names the address.
    address: str = ""
    #: The number of the attempt to reconnect, from 1, as in `Reconnecting`; 0 if no connection was lost.
    attempt: int = 0
    #: Seconds of the wait before that attempt.
    delay_s: float = 0.0
    #: The reason of the failure; 0 after a success.
    reason: int = 0
    detail: str = ""


class Reconnected(Struct, frozen=True, kw_only=True, tag=True):
    """All lost connections of the application are replaced. The objects of the lost connections are open again.

    An event `ReopenRefused` names each object that could not be opened again.
    """

    queue_manager: str
    generation: int
    #: The names of the objects that are open again, each name once, in the order of the first opening.
    objects: tuple[str, ...]
    #: The messages that the outage has lost, such as "Prices/#: publications since the connection was lost".
    gone: tuple[str, ...] = ()
    attempts: int
    #: Milliseconds from the loss of the first connection until now.
    downtime_ms: float


class ReopenRefused(Struct, frozen=True, kw_only=True, tag=True):
    """After an outage, an object could not be opened again. Its owner tries again at the next use; other owners continue."""

    queue_manager: str
    object: str
    #: The owner of the object, for example "listener ORDERS.IN".
    owner: str
    reason: int
    detail: str = ""


class ReadinessChanged(Struct, frozen=True, kw_only=True, tag=True):
    """The application is ready, or no longer ready. It is ready if all workers of every listener have their queue open."""

    ready: bool
    #: The objects that are not open; empty if the application is ready, and also while the application starts or stops.
    missing: tuple[str, ...] = ()


class DelayProcessorStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A delay processor has opened the staging queue, and delivers messages that are due."""

    queue: str


class DelayProcessorStopped(Struct, frozen=True, kw_only=True, tag=True):
    """A delay processor cannot go on, for the given reason. It starts again by itself as soon as it can."""

    queue: str
    why: str
    reason: int


class DelayedDelivered(Struct, frozen=True, kw_only=True, tag=True):
    """A delayed message is on its target queue. The put is committed, so other programs can get the message."""

    #: The target of the message, not the staging queue.
    queue: str
    message_id: bytes
    delay_ms: int
    #: Milliseconds between the due time of the message and this put.
    late_ms: int


class DelayedRefused(Struct, frozen=True, kw_only=True, tag=True):
    """The target queue refused a delayed message that was due. `disposition` is the next step; `Return` means a later retry."""

    queue: str
    message_id: bytes
    disposition: Disposition
    #: The reason of the refused put, and the sentence that explains it.
    reason: int
    detail: str = ""


class ScheduleFired(Struct, frozen=True, kw_only=True, tag=True):
    """A schedule was due. Its message is on its queue. The put and the next due time are committed."""

    queue: str
    message_id: bytes
    schedule: str
    #: The moment at which the schedule was due, in seconds since 1970 UTC.
    due: float
    #: The seconds from that moment to the put.
    late_s: float


class Warned(Struct, frozen=True, kw_only=True, tag=True):
    """A warning for an operator, such as a queue without backout settings or a leaked handle."""

    text: str
    queue: str = ""
    details: Mapping[str, str] = field(default_factory=dict[str, str])
    #: True if an operator has given an order. Then the log has a line each time, and not only for the first of equal texts.
    is_order: bool = False


class DeadLetterActed(Struct, frozen=True, kw_only=True, tag=True):
    """The DLQ handler applied a rule to a dead letter. If `reason` is not 0, the action failed, and the message stays for now.

    A message that the rules leave on its queue is reported once.
    """

    queue: str
    message_id: bytes
    #: The rule: "line 12", or the name of a function; empty if no rule matches any more.
    rule: str
    intent: Intent
    #: The number of attempts on the message, this attempt included.
    attempt: int
    #: The reason why the put was refused or the unit of work was backed out; 0 if the action succeeded.
    reason: int = 0
    detail: str = ""
    #: True if the queue refused this message for the same reason before: the MQDLH already names this queue and this reason.
    repeated: bool = False


class Edited(Struct, frozen=True, kw_only=True, tag=True):
    """A person changed the body of a failed message and put it on another queue, in one unit of work."""

    #: The queue that the message was on.
    queue: str
    message_id: bytes
    #: The queue that the message was put on.
    target: str
    #: The user and the machine: "amelie@host7".
    by: str
    #: The SHA-256 of the body before and after the change, in hexadecimal digits, and the number of bytes of each body.
    sha256_before: str
    sha256: str
    body_bytes_before: int
    body_bytes: int


class HookFailed(Struct, frozen=True, kw_only=True, tag=True):
    """A hook raised an exception; the message of its event is not affected."""

    hook: str
    error: str
    event: str


Event = (
    Delivered | Decided | Disposed | Settled | WaitsOnQueue | InDoubt | ReportSent | DelayProcessorStarted
    | DelayProcessorStopped | DelayedDelivered | DelayedRefused | ListenerStarted | ListenerStopped | ListenerPaused
    | ListenerResumed | BreakerHalfOpened | ConsumerFailed | HandlerStuck | Draining | Reconnecting | ConnectionTried
    | Reconnected | ReopenRefused | ReadinessChanged | ScheduleFired | Warned | DeadLetterActed | Edited | HookFailed
)  # fmt: skip
"""All events that a hook can receive."""


class Hook(Protocol):
    """Receives every event, in order, on the event loop's thread. The first exception of a hook becomes a `HookFailed`."""

    def __call__(self, event: Event) -> None:
        """Receive the event. The hook must not block."""
