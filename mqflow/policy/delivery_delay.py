"""Decides about delayed messages: which may be sent, how they are staged, when they are due, and what happens then.

This module puts nothing, and the caller passes the time. The CorrelId of a staged message is the MsgId of the message that was
sent.
Source: IBM, the whole page "JMS 2.0 delivery delay". The page says nothing about the header of a staged message, or about the
due time after a restart. mqflow has its own rules for both.
"""

import math
from datetime import timedelta
from typing import Final, SupportsFloat

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES, FORMAT, DelayHeader
from mqflow.mqi.options import Encoding, MessageFlag, ObjectType, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import DeadLetter, Discard, Return

__all__ = (
    "DELAY_MS_MAX",
    "ClockReading",
    "Plan",
    "TargetQueue",
    "check_delay",
    "check_target",
    "delay_in_ms",
    "due_in_ms",
    "has_expired",
    "on_refused",
    "on_report_refused",
    "owes_exception_report",
    "postponed",
    "restored",
    "retry_in_ms",
    "seconds_of",
    "staged",
)

DELAY_MS_MAX: Final = 100 * 366 * 24 * 3_600 * 1_000
"""A century. A longer delay is a mistake: the caller used the wrong unit."""

_TENTHS_MS: Final = 100
_RETRY_MS_MIN: Final = 1_000
_RETRY_MS_MAX: Final = 60_000
_GROUPED: Final = MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP | MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
_SEND: Final = "Sending with a delivery delay"

Plan = tuple[DeadLetter | Discard | Return, ...]
"""Dispositions in the order to try them. The last one needs no put, so it cannot be refused."""


class ClockReading(Struct, frozen=True, kw_only=True):
    """The time, read from two clocks."""

    #: Milliseconds since 1970. This clock can be set forward or back.
    wall_ms: int
    #: Milliseconds since the moment that `epoch` names; never goes back. Only readings with an equal epoch can be compared.
    monotonic_ms: int
    #: Names the start of the machine's monotonic clock. Zeros mean that it is unknown, so no other reading can be compared.
    epoch: bytes = bytes(16)


class TargetQueue(Struct, frozen=True, kw_only=True):
    """The facts about the target queue when a delayed message is sent. A field of None is unknown, and is not checked."""

    put_inhibited: bool = False
    max_message_bytes: int | None = None
    max_depth: int | None = None
    depth: int | None = None
    #: True if the target is a cluster queue whose DEFBIND is not NOTFIXED.
    clustered_and_bound: bool = False


def seconds_of(given: timedelta | float) -> float:
    """Return a timedelta or a number in seconds. For anything else, return "not a number" (NaN): no comparison accepts it.

    A number too large for a float, and a text, are NaN too.
    """
    if isinstance(given, timedelta):
        return given.total_seconds()
    try:
        return float(given) if isinstance(given, SupportsFloat) else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def delay_in_ms(delay: timedelta | float, name: str = "") -> int:
    """Return the delay, a timedelta or seconds, in whole milliseconds, rounded up so that no message is early.

    Raises `MQIError` 2046 for a delay that is negative, not a number, or beyond a century. `name` is the queue or topic, for
    the error.
    """
    seconds = seconds_of(delay)
    if math.isnan(seconds) or not 0 <= seconds <= DELAY_MS_MAX / 1_000:
        takes = f"it takes 0 to {DELAY_MS_MAX // 1_000} seconds (a century), or a timedelta: timedelta(hours=1)"
        detail = f"The delay {delay!r} is not valid: {takes}"
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail=detail)
    # First rounds to microseconds, so that 0.1 + 0.2 seconds give 300 milliseconds and not 301.
    return math.ceil(round(seconds * 1_000_000) / 1_000)


def check_delay(
    delay_ms: int, descriptor: MessageDescriptor, *, name: str = "", retained: bool = False, delivery_all_available: bool = True
) -> None:
    """Refuse a message that cannot be delayed on any queue. With a delay of 0, every message is accepted.

    Raises `MQIError` 2013 for an expiry shorter than the delay. Raises 2046 for a message of a group, a segment, a staged
    message or a retained publication. Raises 2502 for a topic whose PMSGDLV or NPMSGDLV is not ALLAVAIL.
    Source: IBM, "JMS 2.0 delivery delay", its sections on restrictions and on publish/subscribe.
    """
    if not delay_ms:
        return
    if 0 <= descriptor.expiry_tenths * _TENTHS_MS < delay_ms:
        detail = f"It expires after {descriptor.expiry_tenths * _TENTHS_MS} ms, before the end of its delay of {delay_ms} ms"
        raise error_for(Reason.EXPIRY_ERROR, _SEND, name, detail=detail)
    if descriptor.message_flags & _GROUPED:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="A message of a group, or a segment, cannot be delayed")
    if descriptor.format == FORMAT:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="A staged message is delayed already")
    if retained:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="A retained publication cannot be delayed")
    if not delivery_all_available:
        detail = "Only a topic with PMSGDLV(ALLAVAIL) and NPMSGDLV(ALLAVAIL) takes delayed publications"
        raise error_for(Reason.PUBLICATION_FAILURE, _SEND, name, detail=detail)


def check_target(target: TargetQueue, body_bytes: int, *, name: str = "") -> None:
    """Refuse a message at the send if its target queue refuses it now. So fewer puts fail at the due time.

    Raises `MQIError` 2046 (a cluster queue that is bound), 2051, 2030 or 2053. A refused message might have been accepted at
    its due time.
    Source: "the queue manager performs some basic checks"; the restrictions, second bullet.
    """
    if target.clustered_and_bound:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="The cluster queue is not defined with DEFBIND(NOTFIXED)")
    if target.put_inhibited:
        raise error_for(Reason.PUT_INHIBITED, _SEND, name)
    if target.max_message_bytes is not None and body_bytes > target.max_message_bytes:
        detail = f"{body_bytes} bytes; MAXMSGL is {target.max_message_bytes}"
        raise error_for(Reason.MSG_TOO_BIG_FOR_Q, _SEND, name, detail=detail)
    if target.max_depth is not None and target.depth is not None and target.depth >= target.max_depth:
        raise error_for(Reason.Q_FULL, _SEND, name, detail=f"MAXDEPTH is {target.max_depth}")


def staged(
    descriptor: MessageDescriptor,
    body: bytes,
    *,
    delay_ms: int,
    now: ClockReading,
    target: str = "",
    target_queue_manager: str = "",
    target_type: int = ObjectType.Q,
    subscription_id: bytes = NO_ID,
    use_dead_letter_queue: bool = True,
    backout_count: int = 0,
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body for the put on the staging queue with a new MsgId (`PutOption.NEW_MSG_ID`).

    Without `target`, the result is for a put on the target queue itself. There an embedded queue manager stages the message.

    The MsgId of the descriptor must be set; it becomes the CorrelId. Persistence and priority do not change, so the caller must
    resolve them first. The header keeps expiry, flags and reports: a staged message neither expires nor causes reports.
    """
    header = DelayHeader(
        target_type=target_type,
        target=target,
        target_queue_manager=target_queue_manager,
        subscription_id=subscription_id,
        correlation_id=descriptor.correlation_id,
        report=descriptor.report,
        message_flags=descriptor.message_flags,
        expiry_tenths=descriptor.expiry_tenths,
        format=descriptor.format,
        encoding=descriptor.encoding,
        ccsid=descriptor.ccsid,
        delay_ms=delay_ms,
        sent_wall_ms=now.wall_ms,
        sent_monotonic_ms=now.monotonic_ms,
        monotonic_epoch=now.epoch,
        backout_count=backout_count,
        use_dead_letter_queue=use_dead_letter_queue,
    )
    moved = replace(
        descriptor,
        message_id=NO_ID,
        correlation_id=descriptor.message_id,
        report=Report.NONE,
        message_flags=MessageFlag.NONE,
        expiry_tenths=EXPIRY_UNLIMITED,
        format=FORMAT,
        encoding=Encoding.NORMAL,
        backout_count=0,
    )
    return moved, delay_header.to_bytes(header) + body


def restored(
    descriptor: MessageDescriptor, header: DelayHeader, body: bytes, now: ClockReading
) -> tuple[MessageDescriptor, bytes]:
    """Return the original message, for the put to its target. Only the expiry changes: it is reduced by the time of the wait.

    `body` is the body of the staged message with its header. If the message has expired, its expiry is a tenth of a second, so
    call `has_expired` first.
    """
    left_tenths = header.expiry_tenths
    if left_tenths > 0:
        left_tenths = max(1, left_tenths - _since_sent_ms(header, now) // _TENTHS_MS)
    sent = replace(
        descriptor,
        message_id=descriptor.correlation_id,
        correlation_id=header.correlation_id,
        report=header.report,
        message_flags=header.message_flags,
        expiry_tenths=left_tenths,
        format=header.format,
        encoding=header.encoding,
        ccsid=header.ccsid,
        backout_count=0,
    )
    return sent, body[DELAY_HEADER_BYTES:]


def due_in_ms(header: DelayHeader, now: ClockReading) -> int:
    """Return the milliseconds until the message is due. A negative number says how late the message is.

    If the message was sent in the same epoch, the monotonic clock counts. After a restart of the machine only the wall clock
    can be used. If that clock was set back, the message is late until the clock is corrected, at most by the time it was set
    back. The result is never more than the delay, or the delay plus `retry_ms` if the target has refused the message.
    """
    wait_ms = header.delay_ms + header.retry_ms
    return min(wait_ms, wait_ms - _since_sent_ms(header, now))


def postponed(header: DelayHeader, body: bytes, now: ClockReading, *, retry_ms: int) -> bytes:
    """Return the body of the staged message with a header that makes it due again in `retry_ms`."""
    late_ms = max(0, _since_sent_ms(header, now) - header.delay_ms)
    return delay_header.to_bytes(replace(header, retry_ms=late_ms + retry_ms)) + body[DELAY_HEADER_BYTES:]


def retry_in_ms(header: DelayHeader) -> int:
    """Return the milliseconds until the next put of a refused message: its time since it was due, from 1 to 60 seconds."""
    return min(max(header.retry_ms, _RETRY_MS_MIN), _RETRY_MS_MAX)


def has_expired(header: DelayHeader, now: ClockReading) -> bool:
    """Return whether the message expired before its delivery. The expiry counts from the send."""
    return 0 < header.expiry_tenths <= _since_sent_ms(header, now) // _TENTHS_MS


def on_refused(header: DelayHeader, *, reason: int, dead_letter_queue: str, subscriber_gone: bool = False) -> Plan:
    """Return the steps, in order, for a message whose put to its target failed at the due time.

    The report options decide whether the message is discarded or dead-lettered. If the dead-letter queue refuses it, a
    publication is discarded, and any other message is tried again later. If the subscriber is gone, a publication is discarded
    immediately. With USEDLQ(NO) no message is dead-lettered.
    Source: "Failure to put to target queue".
    """
    publication = header.subscription_id != NO_ID
    if publication and subscriber_gone:
        return (Discard("Its subscriber is gone"),)
    if header.report & Report.DISCARD_MSG:
        return (Discard("MQRO_DISCARD_MSG: its sender asked for it"),)
    last: Discard | Return
    if publication:
        last = Discard("Neither the subscriber nor the dead-letter queue took the publication")
    else:
        last = Return("Neither its queue nor the dead-letter queue took it: it is tried again later")
    queue = dead_letter_queue if header.use_dead_letter_queue else ""
    return (DeadLetter(queue, reason), last) if queue else (last,)


def owes_exception_report(done: DeadLetter | Discard | Return) -> bool:
    """Return True if the message was dead-lettered or discarded: a sender that asked for an exception report then gets one.

    Source: "If the action is successful an exception report is generated"; about a silent discard: "Report messages are still
    generated as described earlier".
    """
    return not isinstance(done, Return)


def on_report_refused(descriptor: MessageDescriptor, error: MQIError) -> MQIError | None:
    """Return the error to raise if no queue took the report, not even the dead-letter queue; None to raise no error.

    For a persistent message, return the error. The caller then backs out the whole unit of work and tries again later.
    Source: "If sending the report to the dead letter queue fails and the message is persistent, all changes are discarded".
    """
    return error if descriptor.persistence else None


def _since_sent_ms(header: DelayHeader, now: ClockReading) -> int:
    if any(now.epoch) and now.epoch == header.monotonic_epoch:
        return now.monotonic_ms - header.sent_monotonic_ms
    return max(0, now.wall_ms - header.sent_wall_ms)
