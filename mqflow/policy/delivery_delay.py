"""Decides about delayed messages: whether one may be sent, how it is staged, when it is due, and what becomes of it then.

Knows descriptors, headers and moments it is told; puts nothing, and knows no clock. A staged message is found by its CorrelId,
which is the MsgId of the message that was sent.
Source: IBM, "JMS 2.0 delivery delay", whole; what that page leaves open (the header, moments across a restart) is ours.
"""

import math
from datetime import timedelta
from typing import Final

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
    "Moment",
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
    "staged",
)

DELAY_MS_MAX: Final = 100 * 366 * 24 * 3_600 * 1_000
"""A century: a longer delay is a mistake in the unit."""

_TENTHS_MS: Final = 100
_RETRY_MS_MIN: Final = 1_000
_RETRY_MS_MAX: Final = 60_000
_GROUPED: Final = MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP | MessageFlag.SEGMENT | MessageFlag.LAST_SEGMENT
_SEND: Final = "Sending with a delivery delay"

Plan = tuple[DeadLetter | Discard | Return, ...]
"""What to try, in order; the last needs no put."""


class Moment(Struct, frozen=True, kw_only=True):
    """What time it is, by both clocks."""

    #: Milliseconds since 1970; may jump.
    wall_ms: int
    #: Milliseconds since something; never goes back, and says nothing to a clock that counts from something else.
    monotonic_ms: int
    #: The name of what `monotonic_ms` counts from: one start of one machine. Zeros compare with nothing.
    epoch: bytes = bytes(16)


class TargetQueue(Struct, frozen=True, kw_only=True):
    """What is known at the send of the queue a delayed message is for. Unknown is what lets it pass: None."""

    put_inhibited: bool = False
    max_message_bytes: int | None = None
    max_depth: int | None = None
    depth: int | None = None
    #: Whether it is a cluster queue, and the binding it is defined with is not "not fixed" (DEFBIND).
    clustered_and_bound: bool = False


def delay_in_ms(delay: timedelta | float, name: str = "") -> int:
    """Return the delay, a timedelta or seconds, in whole milliseconds, rounded up: never early.

    Raises `MQIError` 2046 where it is negative, no number, or beyond a century. `name` is the queue or topic, for the message.
    """
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
    if math.isnan(seconds) or not 0 <= seconds <= DELAY_MS_MAX / 1_000:
        said = f"A delay of {delay!r} is none: it takes 0 to {DELAY_MS_MAX // 1_000} seconds (a century), or a timedelta"
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail=said)
    # Rounded at the microsecond first: 0.1 + 0.2 seconds are 300 milliseconds, not 301.
    return math.ceil(round(seconds * 1_000_000) / 1_000)


def check_delay(
    delay_ms: int, descriptor: MessageDescriptor, *, name: str = "", retained: bool = False, delivery_all_available: bool = True
) -> None:
    """Refuse what cannot be delayed, whatever the queue. A delay of 0 is none, and everything passes.

    Raises `MQIError`: 2013 for an expiry shorter than the delay (equal is allowed), 2046 for a message of a group, a segment
    or a retained publication, 2502 for a topic whose PMSGDLV or NPMSGDLV is not ALLAVAIL.
    Source: the restrictions and the publish/subscribe section of the page.
    """
    if not delay_ms:
        return
    if 0 <= descriptor.expiry_tenths * _TENTHS_MS < delay_ms:
        said = f"It would expire after {descriptor.expiry_tenths * _TENTHS_MS} ms, before its delay of {delay_ms} ms is over"
        raise error_for(Reason.EXPIRY_ERROR, _SEND, name, detail=said)
    if descriptor.message_flags & _GROUPED:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="A message of a group, or a segment, cannot be delayed")
    if retained:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="A retained publication cannot be delayed")
    if not delivery_all_available:
        said = "Only a topic with PMSGDLV(ALLAVAIL) and NPMSGDLV(ALLAVAIL) takes delayed publications"
        raise error_for(Reason.PUBLICATION_FAILURE, _SEND, name, detail=said)


def check_target(target: TargetQueue, body_bytes: int, *, name: str = "") -> None:
    """Refuse at the send what the queue would refuse now, so that fewer are refused when they are due.

    Raises `MQIError` 2046 (a cluster queue that is bound), 2051, 2030 or 2053. Sent all the same, each could still be taken.
    Source: "the queue manager performs some basic checks"; the restrictions, second bullet.
    """
    if target.clustered_and_bound:
        raise error_for(Reason.OPTIONS_ERROR, _SEND, name, detail="The cluster queue is not defined with DEFBIND(NOTFIXED)")
    if target.put_inhibited:
        raise error_for(Reason.PUT_INHIBITED, _SEND, name)
    if target.max_message_bytes is not None and body_bytes > target.max_message_bytes:
        said = f"{body_bytes} bytes; MAXMSGL is {target.max_message_bytes}"
        raise error_for(Reason.MSG_TOO_BIG_FOR_Q, _SEND, name, detail=said)
    if target.max_depth is not None and target.depth is not None and target.depth >= target.max_depth:
        raise error_for(Reason.Q_FULL, _SEND, name, detail=f"MAXDEPTH is {target.max_depth}")


def staged(
    descriptor: MessageDescriptor,
    body: bytes,
    *,
    target: str,
    delay_ms: int,
    now: Moment,
    target_queue_manager: str = "",
    target_type: int = ObjectType.Q,
    subscription_id: bytes = NO_ID,
    use_dead_letter_queue: bool = True,
    backout_count: int = 0,
) -> tuple[MessageDescriptor, bytes]:
    """Return descriptor and body as they are put on the staging queue, with a new MsgId (`PutOption.NEW_MSG_ID`).

    The descriptor's MsgId, which must be given, becomes the CorrelId. Persistence and priority are taken as they are, so
    resolve them first. Expiry, flags and reports wait in the header: a staged message neither expires nor reports by itself.
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


def restored(descriptor: MessageDescriptor, header: DelayHeader, body: bytes, now: Moment) -> tuple[MessageDescriptor, bytes]:
    """Return the message that was sent, as it is put now: everything as it was, with what is left of its expiry.

    `body` is that of the staged message, header included. One that has expired keeps a tenth: ask `has_expired` first.
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


def due_in_ms(header: DelayHeader, now: Moment) -> int:
    """Return in how many milliseconds the message is due; 0 or less where it is, and by how much it is late.

    By the clock that never jumps where that is the one it was sent by. After a restart of the machine only the wall clock is
    left: one that was set back makes a message late by as much, or until it is put right. What is told is never more than the
    delay, but while the wall clock says that the message is not sent yet, it does not become less.
    """
    wait_ms = header.delay_ms + header.retry_ms
    return min(wait_ms, wait_ms - _since_sent_ms(header, now))


def postponed(header: DelayHeader, body: bytes, now: Moment, *, retry_ms: int) -> bytes:
    """Return the body of the staged message with a header that makes it due again in `retry_ms`."""
    late_ms = max(0, _since_sent_ms(header, now) - header.delay_ms)
    return delay_header.to_bytes(replace(header, retry_ms=late_ms + retry_ms)) + body[DELAY_HEADER_BYTES:]


def retry_in_ms(header: DelayHeader) -> int:
    """Return how long to wait before a refused message is tried again: as long as it has waited for that, 1 to 60 seconds."""
    return min(max(header.retry_ms, _RETRY_MS_MIN), _RETRY_MS_MAX)


def has_expired(header: DelayHeader, now: Moment) -> bool:
    """Return whether the message lived out its expiry, counted from the send, before it was delivered."""
    return 0 < header.expiry_tenths <= _since_sent_ms(header, now) // _TENTHS_MS


def on_refused(header: DelayHeader, *, reason: int, dead_letter_queue: str, subscriber_gone: bool = False) -> Plan:
    """Return what becomes of a message that could not be put where it is for, at its due time.

    As its report options say: discarded or dead-lettered; where that fails, tried later, but for a publication, which is
    discarded. A publication whose subscriber is gone is discarded at once; with USEDLQ(NO) none is dead-lettered.
    Source: "Failure to put to target queue".
    """
    publication = header.subscription_id != NO_ID
    if publication and subscriber_gone:
        return (Discard("Its subscriber is gone"),)
    if header.report & Report.DISCARD_MSG:
        return (Discard("MQRO_DISCARD_MSG: its sender asked for that"),)
    last: Discard | Return
    if publication:
        last = Discard("A publication that neither the subscriber nor the dead-letter queue took")
    else:
        last = Return("Neither its queue nor the dead-letter queue took it: it is tried again later")
    takes = dead_letter_queue if header.use_dead_letter_queue else ""
    return (DeadLetter(takes, reason), last) if takes else (last,)


def owes_exception_report(done: DeadLetter | Discard | Return) -> bool:
    """Return whether the sender is owed the exception report it may have asked for: the message was dealt with.

    Source: "If the action is successful an exception report is generated"; of a silent discard, "Report messages are still
    generated as described earlier".
    """
    return not isinstance(done, Return)


def on_report_refused(descriptor: MessageDescriptor, error: MQIError) -> MQIError | None:
    """Return what to do when neither its queue nor the dead-letter queue took the report: None to go on without it.

    An error, of a persistent message, means that the whole unit of work is backed out and tried again later.
    Source: "If sending the report to the dead letter queue fails and the message is persistent, all changes are discarded".
    """
    return error if descriptor.persistence else None


def _since_sent_ms(header: DelayHeader, now: Moment) -> int:
    if any(now.epoch) and now.epoch == header.monotonic_epoch:
        return now.monotonic_ms - header.sent_monotonic_ms
    return max(0, now.wall_ms - header.sent_wall_ms)
