"""Builds the reports that senders ask for (exception, arrival, delivery, expiration), and answers to failed requests.

This module puts nothing. The runtime builds reports for poison messages; the embedded queue manager builds the reports that it
generates itself.
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

__all__ = (
    "DATA_BYTES",
    "ReportMessage",
    "answer_to_failure",
    "exception_report",
    "is_exception_report_owed",
    "reply_descriptor",
    "report",
)

DATA_BYTES: Final = 100
"""A report "with data" carries this many bytes of application data, after all headers."""


class ReportMessage(Struct, frozen=True):
    """A report, and the queue to put it to."""

    reply_to_queue: str
    #: The queue manager of the reply queue; empty for the local queue manager.
    reply_to_queue_manager: str
    #: The descriptor of the report, with the identity context of the original message. A queue manager sets this context. If an
    #: application puts the report, the report has the context of the application, which needs no further authority.
    descriptor: MessageDescriptor
    body: bytes
    #: True if a report whose put fails goes to the dead-letter queue (q032680); false to drop such a report.
    is_kept: bool = True


def exception_report(descriptor: MessageDescriptor, body: bytes, *, feedback: int) -> ReportMessage | None:
    """Return the exception report that the sender asked for, or None. `feedback` is a reason code or MQFB_*."""
    return report(descriptor, body, mask=Report.EXCEPTION_MASK, feedback=feedback)


def report(descriptor: MessageDescriptor, body: bytes, *, mask: Report, feedback: int) -> ReportMessage | None:
    """Return the report of this kind. None if the sender did not ask for such a report, or named no reply queue.

    `mask` is one of `Report.EXCEPTION_MASK`, `COA_MASK`, `COD_MASK` and `EXPIRATION_MASK`. The body is empty, or the headers
    and the first 100 bytes of application data, or the whole message. Format, Encoding and CCSID are those of the original, so
    they can describe more data than the report has (q107770). Identifiers, expiry, priority and persistence follow the rules
    for a reply.
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
    """Return whether this disposition of a poison message causes an exception report, if the message's sender asked for one.

    Source: q032680: a report is sent for a message that did not go to the backout requeue queue, and was dead-lettered or
    discarded as its report options say. From memory: if a message is lost because no queue accepted it, its sender gets no
    report.
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


def answer_to_failure(
    descriptor: MessageDescriptor, body: bytes, disposition: Disposition, *, feedback: int
) -> ReportMessage | None:
    """Return the report that tells the sender of a request that no reply follows; None for any other message.

    The answer is an exception report, with as much data as the report options ask for. A message that stays on its queue gets
    no answer, because it can still be handled. If the put of the answer fails, the answer is dropped.

    IBM MQ does not do this: by q032680, only a sender that asks for reports gets one. But without the answer the sender of the
    request waits until its own timeout.
    """
    if descriptor.message_type != MessageType.REQUEST or not descriptor.reply_to_queue:
        return None
    match disposition:
        case Deliver() | Return():
            return None
        case Requeue() | DeadLetter() | Discard():
            asked = exception_report(descriptor, body, feedback=feedback)
            about = asked or ReportMessage(
                descriptor.reply_to_queue,
                descriptor.reply_to_queue_manager,
                replace(reply_descriptor(descriptor), message_type=MessageType.REPORT, feedback=int(feedback)),
                b"",
            )
            return replace(about, is_kept=False)
        case _:
            assert_never(disposition)


def reply_descriptor(request: MessageDescriptor) -> MessageDescriptor:
    """Return the descriptor of the reply to this request, without format and character set.

    CorrelId is the MsgId of the request, or its CorrelId with MQRO_PASS_CORREL_ID. MsgId is new, or that of the request with
    MQRO_PASS_MSG_ID. Priority and persistence are copied from the request. With MQRO_PASS_DISCARD_AND_EXPIRY, the remaining
    expiry and MQRO_DISCARD_MSG are copied too.
    Source: IBM q097680 (Report: the options for identifiers and for passing discard and expiry on).
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
    # The mask of each kind has three bits. The lowest bit asks for the report, the next bit for some data, the last for all
    # data.
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
    except MQIError:  # a malformed header counts as application data
        return 0
