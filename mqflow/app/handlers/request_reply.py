"""Requests and their replies: a reply queue for each request, and what on it is the reply.

Knows sessions and descriptors; puts nothing itself.
"""

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.handlers.outgoing import EXPIRY_TENTHS_MAX, Outgoing
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED
from mqflow.mqi.options import Feedback, GetOption, MessageType, OpenOption
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.verbs import GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Unanswered", "answerable", "first_reply", "reply_queue")

_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_REPLIES: Final = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
# Whatever comes: the queue is this request's alone. A responder that heeds MQRO_PASS_CORREL_ID gives the request's own CorrelId
# back, and one with a convention of its own anything; a match would leave their replies unread.
_GET: Final = GetOptions(
    options=GetOption.NO_SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
)
_ON_ITS_WAY: Final = frozenset({Feedback.COA, Feedback.COD, Feedback.ACTIVITY})


class Unanswered(Struct, frozen=True):
    """No reply came in time."""

    #: Of the last report that came and says what became of the request: a reason code, or MQFB_*; 0 for none.
    feedback: int = 0


async def reply_queue(session: Session) -> ObjectHandle:
    """Return the temporary dynamic queue for the reply, which goes with the session."""
    return await session.call(session.open_objects.hold, _MODEL, _REPLIES)


def answerable(message: Outgoing, timeout_s: float) -> Outgoing:
    """Return it as a request, gone when nobody waits for its reply any more, unless its sender said how long it lives.

    Its reply queue is gone then, so a handler that answers fails, however often the request is delivered.
    """
    request = replace(message, descriptor=replace(message.descriptor, message_type=int(MessageType.REQUEST)))
    tenths = math.ceil(timeout_s * 10)
    if request.delay_ms or request.descriptor.expiry_tenths != EXPIRY_UNLIMITED or not 0 < tenths <= EXPIRY_TENTHS_MAX:
        return request
    return replace(request, descriptor=replace(request.descriptor, expiry_tenths=tenths))


async def first_reply(lasting: ReconnectingSession, clock: Clock, timeout_s: float) -> Got | Unanswered:
    """Return the reply: the first message that is no report; over an outage, on a reply queue of the same name.

    Reports come where replies do (q097680), when the request's descriptor asks for them. Raises the `MQIError` of a get.
    """
    until, unanswered = clock.monotonic() + timeout_s, Unanswered()
    while True:
        session = await lasting.get()
        replies = await reply_queue(session)
        wait_ms = max(round((until - clock.monotonic()) * 1_000), 0)
        exchange = await session.exchange(None, replies, replace(_GET, wait_ms=wait_ms), most=1)
        if exchange.get_error is not None:
            if not await lasting.lose(exchange.get_error):
                raise exchange.get_error
            continue
        if not exchange.unit:
            return unanswered
        [got] = exchange.unit
        if got.descriptor.message_type != MessageType.REPORT:
            return got
        if got.descriptor.feedback not in _ON_ITS_WAY:
            unanswered = Unanswered(got.descriptor.feedback)
