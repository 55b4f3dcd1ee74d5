"""Requests and replies. Each request has its own reply queue. This file finds the reply among the messages on that queue.

It puts no message.
"""

import math
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.handlers.mistakes import check_number
from mqflow.app.handlers.outgoing_message import EXPIRY_TENTHS_MAX, Outgoing
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED
from mqflow.mqi.options import Feedback, GetOption, MessageType, OpenOption
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.verbs import GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Refused", "Unanswered", "answerable", "check_timeout", "first_reply", "reply_queue")

_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_TIMEOUT_S_MAX: Final = EXPIRY_TENTHS_MAX // 10
_REPLIES: Final = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
# The get has no match options, because only this request uses the queue. A responder that obeys MQRO_PASS_CORREL_ID returns the
# CorrelId of the request, and other responders have other conventions. With a match, their replies would not be got.
_GET: Final = GetOptions(
    options=GetOption.NO_SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
)
_ABOUT_THE_WAY: Final = frozenset({Feedback.NONE, Feedback.COA, Feedback.COD, Feedback.ACTIVITY})
# A responder can send these reports in addition to a reply.
_OF_THE_RESPONDER: Final = frozenset({Feedback.QUIT, Feedback.PAN, Feedback.NAN})


class Unanswered(Struct, frozen=True):
    """The result of a request that got no reply in time."""

    #: The feedback of the responder's last report: MQFB_PAN, MQFB_NAN or a number of its own; 0 if there was no report.
    feedback: int = 0


class Refused(Struct, frozen=True):
    """The result of a request that will get no reply, because it is no longer on its queue."""

    #: The feedback of the report that ended the wait: a reason code, or MQFB_EXPIRATION.
    feedback: int


async def reply_queue(session: Session) -> ObjectHandle:
    """Return a temporary dynamic queue for the reply. The end of the session deletes this queue."""
    return await session.call(session.open_objects.hold, _MODEL, _REPLIES)


def check_timeout(timeout_s: float) -> None:
    """Raise `TypeError` or `ValueError` if a request cannot expire after this number of seconds."""
    check_number("request", "timeout_s", timeout_s, "seconds")
    if not 0 < timeout_s <= _TIMEOUT_S_MAX:
        raise ValueError(f"request(timeout_s={timeout_s!r}): it takes more than 0 and at most {_TIMEOUT_S_MAX} seconds.")


def answerable(message: Outgoing, timeout_s: float) -> Outgoing:
    """Return the message as a request that expires at the timeout, unless it has an expiry or a delay.

    After the timeout the reply queue does not exist any more, so a handler could not put its reply.
    """
    request = replace(message, descriptor=replace(message.descriptor, message_type=int(MessageType.REQUEST)))
    if request.delay_ms or request.descriptor.expiry_tenths != EXPIRY_UNLIMITED:
        return request
    return replace(request, descriptor=replace(request.descriptor, expiry_tenths=math.ceil(timeout_s * 10)))


async def first_reply(reconnecting: ReconnectingSession, clock: Clock, timeout_s: float) -> Got | Unanswered | Refused:
    """Return the reply: the first message that is not a report. After an outage it comes to a new queue of the same name.

    The reply queue also gets reports: those that the request's descriptor asks for, and the answer of a listener that could not
    handle the request. A report of an exception or an expiration ends the wait. During an outage too, the wait ends after
    `timeout_s`. Raises the `MQIError` of a get. Source: q097680.
    """
    until, unanswered = clock.monotonic() + timeout_s, Unanswered()
    while True:
        session: Session | None = None
        with anyio.move_on_after(until - clock.monotonic()):
            session = await reconnecting.get()
        if session is None:
            return unanswered
        replies = await reply_queue(session)
        wait_ms = max(round((until - clock.monotonic()) * 1_000), 0)
        exchange = await session.exchange(None, replies, replace(_GET, wait_ms=wait_ms), most=1)
        if exchange.get_error is not None:
            if not await reconnecting.lose(exchange.get_error):
                raise exchange.get_error
            continue
        if not exchange.unit:
            return unanswered
        [got] = exchange.unit
        if got.descriptor.message_type != MessageType.REPORT:
            return got
        feedback = got.descriptor.feedback
        if feedback in _OF_THE_RESPONDER or feedback >= Feedback.APPL_FIRST:
            unanswered = Unanswered(feedback)
        elif feedback not in _ABOUT_THE_WAY:
            return Refused(feedback)
