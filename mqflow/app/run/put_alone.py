"""A put on a session of its own. A request needs this, because the queue for its reply exists as long as the session.

This file knows sessions, and how a put can end.
"""

from collections.abc import Awaitable, Callable

from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.app.run.unit_of_puts import in_doubt, loses_connection
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import leaves_in_doubt
from mqflow.policy.shared_puts import CONNECTIONS_MAX
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Put

__all__ = ("put_and_commit", "put_on_next_connections")


async def put_on_next_connections(
    reconnecting: ReconnectingSession, put: Callable[[Session], Awaitable[Put]], *, waits: bool
) -> Put:
    """Call `put`, which puts and commits on a session; return its result. After an error, no later commit includes that put.

    With `waits`, if the connection is lost before the commit is sent, `put` is called again on the next connection. The queue
    manager has backed out the first put, so the message is put only once. Raises the error of `put` if the commit got no
    answer, or if `put` has lost four connections. Raises the error of `ReconnectingSession.get` if no new connection can be
    made.
    """
    lost = 0
    while True:
        session = await reconnecting.get(of_now=True)
        try:
            return await put(session)
        except MQIError as error:
            is_lost = await loses_connection(reconnecting, session, error)
            lost += 1
            if not (waits and is_lost) or lost == CONNECTIONS_MAX or leaves_in_doubt(error):
                raise
        except BaseException:  # for example cancelled; the next commit must not include this put
            await reconnecting.close()
            raise


async def put_and_commit(session: Session, message: Outgoing, send: Send, broadcast: Broadcast) -> Put:
    """Put the message on the session and commit it. Raises the `MQIError` of the put or of the commit.

    If nobody can know whether the commit took effect, an `InDoubt` event and the error name the message.
    """
    put = await send(message)
    message_ids = (put.descriptor.message_id,)
    try:
        await session.settle(Settlement.COMMIT)
    except MQIError as error:
        if error.reason == Reason.BACKED_OUT:
            raise
        raise in_doubt(broadcast, message.queue, message_ids, int(error.reason), error) from error
    except BaseException as error:
        # asyncio's `Task.cancel` interrupts even a shielded commit, so its result is unknown
        in_doubt(broadcast, message.queue, message_ids, Reason.CALL_INTERRUPTED, error)
        raise
    return put
