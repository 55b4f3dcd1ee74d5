"""The attributes of spans and metrics: for queues, outcomes and backout decisions.

Names follow the OpenTelemetry semantic conventions for messaging; other names begin with `mqflow.`. This module reads only the
records of events and decisions. It never sees a message body or a message property, so no message content can leak.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, assert_never

from mqflow.events import Decided, Disposed
from mqflow.mqi.names import dynamic_pattern
from mqflow.policy.poison.disposition import (
    Completed,
    DeadLetter,
    Deliver,
    Discard,
    Disposition,
    Failed,
    Interrupted,
    Outcome,
    Requeue,
    Return,
    Undecodable,
)

__all__ = (
    "BACKOUT_DECISION",
    "BATCH_MESSAGES",
    "CORRELATION_ID",
    "ENVELOPE_SIZE",
    "ERROR_TYPE",
    "MESSAGE_ID",
    "SYSTEM",
    "TEMPLATE",
    "Attributes",
    "decision_attributes",
    "destination_of",
    "disposition_name",
    "error_type",
    "operation_attributes",
    "operation_name",
    "outcome_name",
    "tried",
)

Attributes = Mapping[str, str | bool | int | float | Sequence[str] | Sequence[int]]

#: The value of `messaging.system`. The conventions list no value for IBM MQ; other instrumentations use "ibm_mq".
SYSTEM: Final = "ibm_mq"

#: The name of the span event for a backout decision.
BACKOUT_DECISION: Final = "mqflow.backout.decision"

BATCH_MESSAGES: Final = "messaging.batch.message_count"
CORRELATION_ID: Final = "messaging.message.conversation_id"
#: The number of bytes after the message descriptor: headers and body.
ENVELOPE_SIZE: Final = "messaging.message.envelope.size"
ERROR_TYPE: Final = "error.type"
MESSAGE_ID: Final = "messaging.message.id"
#: The attribute for the name pattern of dynamic queues, whose names differ for each requester or subscriber.
TEMPLATE: Final = "messaging.destination.template"

#: The value of `messaging.operation.type` for each value of `messaging.operation.name`.
_OPERATION_TYPES: Final = MappingProxyType({"put": "send", "process": "process", "settle": "settle"})


@lru_cache(maxsize=1024)
def operation_name(operation: str, queue: str) -> str:
    """Return the name of a span: the operation and the queue. A dynamic queue is replaced by the pattern of its name."""
    return f"{operation} {dynamic_pattern(queue) or queue}"


@lru_cache(maxsize=1024)
def operation_attributes(operation: str, queue: str, listener: str = "") -> Attributes:
    """Return the attributes of every span of an operation ("put", "process", "settle") on a queue. The result is cached."""
    attributes: dict[str, str | bool] = {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": _OPERATION_TYPES[operation],
    }
    if pattern := dynamic_pattern(queue):
        attributes |= {TEMPLATE: pattern, "messaging.destination.temporary": True}
    if listener:
        attributes["mqflow.listener"] = listener
    return MappingProxyType(attributes)


def decision_attributes(decided: Decided, disposed: Disposed | None = None) -> Attributes:
    """Return the attributes of a backout decision. With `disposed`, include the result at each destination that was tried."""
    attempts = disposed.attempts if disposed else ()
    final = disposed.disposition if disposed else decided.plan[0]
    attributes: dict[str, str | bool | int | float | Sequence[str] | Sequence[int]] = {
        "mqflow.backout.count": decided.backout_count,
        "mqflow.backout.threshold": decided.threshold,
        "mqflow.backout.threshold_source": decided.threshold_source,
        "mqflow.backout.requeue_queue": decided.backout_requeue_queue,
        "mqflow.backout.requeue_queue_source": decided.queue_source,
        "mqflow.backout.plan": [tried(disposition) for disposition in decided.plan],
        "mqflow.backout.tried": [tried(attempt.disposition) for attempt in attempts],
        "mqflow.backout.reasons": [attempt.reason for attempt in attempts],
        "mqflow.backout.disposition": disposition_name(final),
        "mqflow.backout.destination": destination_of(final),
    }
    if decided.outcome is not None:
        attributes["mqflow.backout.outcome"] = outcome_name(decided.outcome)
        attributes[ERROR_TYPE] = error_type(decided.outcome)
    return attributes


def tried(disposition: Disposition) -> str:
    """Return a disposition and its destination in words, for example "requeue ORDERS.BOQ"."""
    return f"{disposition_name(disposition)} {destination_of(disposition)}".rstrip()


def disposition_name(disposition: Disposition) -> str:
    """Return the name of a disposition, as the attributes show it."""
    match disposition:
        case Deliver():
            return "deliver"
        case Requeue():
            return "requeue"
        case DeadLetter():
            return "dead_letter"
        case Discard():
            return "discard"
        case Return():
            return "return"
        case _:
            assert_never(disposition)


def destination_of(disposition: Disposition) -> str:
    """Return the queue to which a disposition moves the message; empty if the message is not moved."""
    match disposition:
        case Requeue(queue=queue) | DeadLetter(queue=queue):
            return queue
        case Deliver() | Discard() | Return():
            return ""
        case _:
            assert_never(disposition)


def outcome_name(outcome: Outcome) -> str:
    """Return the name of an outcome, as the attributes show it."""
    match outcome:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case Undecodable():
            return "undecodable"
        case Interrupted():
            return "interrupted"
        case _:
            assert_never(outcome)


def error_type(outcome: Outcome) -> str:
    """Return the class of the error, or "" for `Completed`. The text of the error is left out: it often quotes the message."""
    match outcome:
        case Completed():
            return ""
        case Failed(error=error) | Undecodable(error=error):
            return error
        case Interrupted():
            return "interrupted"
        case _:
            assert_never(outcome)
