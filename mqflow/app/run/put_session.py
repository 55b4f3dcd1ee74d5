"""A session for puts in units of work of their own: each put is committed before the next one begins.

This file knows sessions and how a put can end, but no application.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from mqflow.app.handlers.outgoing import Outgoing, Send
from mqflow.events import InDoubt
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Put

__all__ = ("PutSession", "put_and_commit", "put_on_next_connections")

_CONNECTIONS_MAX: Final = 4
"""The connections that one put can lose. A message can itself break each connection that it is put on (an exit, a limit)."""


class PutSession:
    """Puts messages one at a time, each in a unit of work of its own."""

    def __init__(
        self, reconnecting: ReconnectingSession, sender: Callable[[Session], Send], broadcast: Broadcast, *, waits: bool
    ) -> None:
        """Take the session. With `waits`, a put that loses its connection waits for the next one, and puts again."""
        self._reconnecting: Final = reconnecting
        self._sender: Final = sender
        self._broadcast: Final = broadcast
        self._waits: Final = waits
        self._turn: Final = anyio.Lock()

    async def put(self, message: Outgoing) -> Put:
        """Put the message and commit it. Raises the `MQIError` of the put or of the commit."""

        async def put(session: Session) -> Put:
            return await put_and_commit(session, message, self._sender(session), self._broadcast)

        async with self._turn:
            return await put_on_next_connections(self._reconnecting, put, waits=self._waits)

    async def release(self) -> None:
        """Give the connection back, unless a put is running."""
        if not self._turn.locked():
            async with self._turn:
                await self._reconnecting.let_go()

    async def close(self) -> None:
        """Close the session."""
        await self._reconnecting.close()


async def put_on_next_connections(
    reconnecting: ReconnectingSession, put: Callable[[Session], Awaitable[Put]], *, waits: bool
) -> Put:
    """Return the result of `put`, which puts and commits on the session. After an error, no later commit includes that put.

    With `waits`, `put` is called again on the next connection if its connection was lost before its commit was sent: the queue
    manager has backed the put out, so the message is put once. Raises the error of `put` if the commit got no answer, or if
    `put` has lost four connections. Raises the error of `ReconnectingSession.get` if no connection comes back.
    """
    lost = 0
    while True:
        session = await reconnecting.get(of_now=True)
        try:
            return await put(session)
        except MQIError as error:
            is_lost = await _loses_connection(reconnecting, session, error)
            lost += 1
            if not (waits and is_lost) or lost == _CONNECTIONS_MAX or leaves_in_doubt(error):
                raise
        except BaseException:  # cancelled, or middleware raised after its put: the next commit must not include this put
            await reconnecting.close()
            raise


async def _loses_connection(reconnecting: ReconnectingSession, session: Session, error: MQIError) -> bool:
    """After a failed put, keep the session if the next put can use it. Return whether the connection is lost."""
    if await reconnecting.lose(error):
        return True
    if classify(int(error.reason)) is not Class.REOPEN:
        try:
            await session.settle(Settlement.BACKOUT)
        except MQIError as refused:  # a connection that cannot back out is of no use
            if await reconnecting.lose(refused):
                return True
        else:
            return False
    await reconnecting.close()
    return False


async def put_and_commit(session: Session, message: Outgoing, send: Send, broadcast: Broadcast) -> Put:
    """Put the message on the session and commit it. Raises the `MQIError` of the put or of the commit.

    If nobody can know whether the commit took effect, an `InDoubt` event and the error name the message.
    """
    put = await send(message)
    message_id = put.descriptor.message_id

    def say_in_doubt(reason: int) -> None:
        broadcast(InDoubt(queue=message.queue, listener="put", reason=reason, message_ids=(), put_message_ids=(message_id,)))

    try:
        await session.settle(Settlement.COMMIT)
    except MQIError as error:
        if error.reason == Reason.BACKED_OUT:
            raise
        say_in_doubt(int(error.reason))
        detail = f"{error.detail or 'No answer came'}. Message {message_id.hex()} may be on {message.queue}"
        raise error_for(int(error.reason), "MQCMIT", "", error.queue_manager, detail) from error
    except BaseException:
        say_in_doubt(Reason.CALL_INTERRUPTED)  # asyncio's own cancellation ignores the shield of a settlement
        raise
    return put
