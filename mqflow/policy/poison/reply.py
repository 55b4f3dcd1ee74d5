"""How a reply follows from its request: identifiers by the request's report options, the rest as the request had it.

Pure. Source: IBM q097680 (Report: the options for identifiers and for passing discard and expiry on).
"""

from mqflow.mqi.descriptor import EXPIRY_UNLIMITED, NO_ID, MessageDescriptor
from mqflow.mqi.options import MessageType, Report

__all__ = ("reply_descriptor",)


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
