"""Puts on queues that stay open on their session, and opens again one that was changed or deleted under its handle.

Decides nothing: which reasons ask for another handle is in the table of reason codes.
"""

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.session import Session
from mqflow.verbs import Put

__all__ = ("put_kept_open",)


async def put_kept_open(session: Session, queue: str, descriptor: MessageDescriptor, body: bytes, options: PutOption) -> Put:
    """Put the message on a queue that is kept open for output.

    A handle that is of no use any more (2041, 2052) is got anew, once: such a put has had no effect. Raises `MQIError`, 2085
    where the queue is gone.
    """
    return await session.call(_put, session, queue, descriptor, body, options)


def _put(session: Session, queue: str, descriptor: MessageDescriptor, body: bytes, options: PutOption) -> Put:
    """Open and put in one call: on a session with a thread of its own each is a hand-over."""
    openings, put = session.openings, session.connection.put
    handle = openings.output(queue, OpenOption.OUTPUT)
    try:
        return put(handle, descriptor, body, options)
    except MQIError as error:
        if classify(int(error.reason)) is not Class.REOPEN:
            raise
    return put(openings.output_again(queue, OpenOption.OUTPUT), descriptor, body, options)
