"""Makes the report messages that a sender asked for: exception, confirm on arrival, confirm on delivery, expiration.

Knows descriptors, report options and headers; puts nothing. Used by whoever disposes of a message, and by a queue manager for
the reports it generates itself.
Source: IBM q097680, "Report (MQLONG)"; q032680, "Removing messages from the queue in ASF"; q107770.
"""

from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.chain import split
from mqflow.mqi.options import MessageType, Report
from mqflow.policy.poison.backout import BEHAVIOURS
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Disposition, Requeue, Return

__all__ = ("DATA_BYTES", "ReportMessage", "exception_report", "is_exception_report_owed", "reply_descriptor", "report")

DATA_BYTES: Final = 100
"""How much application data, behind all headers, a report "with data" carries."""


class ReportMessage(Struct, frozen=True):
    """A report ready to be put. Where that fails, it is the report that goes to the dead-letter queue (q032680)."""

    reply_to_queue: str
    #: Empty for the queue manager itself.
    reply_to_queue_manager: str
    #: Its identity context is the original's, for a put that passes or sets it.
    descriptor: MessageDescriptor
    body: bytes


def exception_report(descriptor: MessageDescriptor, body: bytes, *, feedback: int) -> ReportMessage | None:
    """Return the exception report the message's sender asked for, or None; `feedback` is the reason code, or MQFB_*."""
    return report(descriptor, body, mask=Report.EXCEPTION_MASK, feedback=feedback)


def report(descriptor: MessageDescriptor, body: bytes, *, mask: Report, feedback: int) -> ReportMessage | None:
    """Return the report of this kind that the message's sender asked for, or None where it asked for none or names no queue.

    `mask` is one of `Report.EXCEPTION_MASK`, `COA_MASK`, `COD_MASK` and `EXPIRATION_MASK`. The body is empty, all headers and
    the first 100 bytes of application data, or everything; Format, Encoding and CCSID stay the original's, so Format can
    promise more than there is (q107770). Identifiers, expiry, priority and persistence are those of a reply.
    """
    data = _reported_data(descriptor, body, mask)
    if data is None or not descriptor.reply_to_queue:
        return None
    about = replace(
        reply_descriptor(descriptor),
        message_type=MessageType.REPORT,
        feedback=int(feedback),
        encoding=descriptor.encoding,
        ccsid=descriptor.ccsid,
        format=descriptor.format,
        user_identifier=descriptor.user_identifier,
        accounting_token=descriptor.accounting_token,
        application_identity_data=descriptor.application_identity_data,
    )
    return ReportMessage(descriptor.reply_to_queue, descriptor.reply_to_queue_manager, about, data)


def is_exception_report_owed(descriptor: MessageDescriptor, disposition: Disposition, behaviour: Behaviour) -> bool:
    """Return whether what became of a poison message owes its sender an exception report, if it asked for one.

    Source: q032680: for a message that missed the backout requeue queue and was dead-lettered or discarded as its report
    options say. One that is lost because no queue took it is not reported (recalled, not read again).
    """
    if not BEHAVIOURS[behaviour].reports:
        return False
    match disposition:
        case DeadLetter():
            return True
        case Discard():
            return bool(descriptor.report & Report.DISCARD_MSG)
        case Deliver() | Requeue() | Return():
            return False
        case _:
            assert_never(disposition)


def reply_descriptor(request: MessageDescriptor) -> MessageDescriptor:
    """Return the descriptor of the reply to this request, still without format and character set.

    CorrelId is the request's MsgId, unless it asked for MQRO_PASS_CORREL_ID; MsgId is new, unless it asked for
    MQRO_PASS_MSG_ID. Priority and persistence are the request's; the remaining expiry and the wish to be discarded only with
    MQRO_PASS_DISCARD_AND_EXPIRY.
    """
    passes_on = bool(request.report & Report.PASS_DISCARD_AND_EXPIRY)
    return MessageDescriptor(
        message_type=MessageType.REPLY,
        message_id=request.message_id if request.report & Report.PASS_MSG_ID else NO_ID,
        correlation_id=request.correlation_id if request.report & Report.PASS_CORREL_ID else request.message_id,
        priority=request.priority,
        persistence=request.persistence,
        expiry_tenths=request.expiry_tenths if passes_on else EXPIRY_UNLIMITED,
        report=request.report & Report.DISCARD_MSG if passes_on else Report.NONE,
    )


def _reported_data(descriptor: MessageDescriptor, body: bytes, mask: Report) -> bytes | None:
    # All four kinds are built alike: the lowest bit of the mask asks for the report, the next for some data, the last for all.
    plain = mask & -mask
    match descriptor.report & mask:
        case asked if asked == plain:
            return b""
        case asked if asked == plain * 3:
            return body[: _header_bytes(descriptor, body) + DATA_BYTES]
        case asked if asked == mask:
            return body
        case _:
            return None


def _header_bytes(descriptor: MessageDescriptor, body: bytes) -> int:
    try:
        return len(body) - len(split(descriptor, body).body)
    except MQIError:  # what does not hold together as a header is application data
        return 0
