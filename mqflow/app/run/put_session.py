"""A session for puts in units of work of their own: each put is committed before the next one begins.

This file knows sessions and how a put can end, but no application.
"""

from collections.abc import Callable
from typing import Final

import anyio

from mqflow.app.handlers.outgoing import Outgoing, Send
from mqflow.events import InDoubt
from mqflow.mqi.errors import MQIError
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Put

__all__ = ("PutSession", "put_and_commit")


class PutSession:
    """Puts messages one at a time, each in a unit of work of its own."""

    def __init__(self, reconnecting: ReconnectingSession, sender: Callable[[Session], Send], broadcast: Broadcast) -> None:
        self._reconnecting: Final = reconnecting
        self._sender: Final = sender
        self._broadcast: Final = broadcast
        self._turn: Final = anyio.Lock()

    async def put(self, message: Outgoing) -> Put:
        """Put the message and commit it. Raises the `MQIError` of the put or of the commit."""
        async with self._turn:
            session = await self._reconnecting.get(of_now=True)
            try:
                put = await put_and_commit(session, message, self._sender(session), self._broadcast)
            except MQIError as error:
                await self._recover(session, error)
                raise
            except BaseException:  # cancelled, or middleware raised after its put: the next commit must not include this put
                await self._reconnecting.close()
                raise
        return put

    async def release(self) -> None:
        """Give the connection back, unless a put is running."""
        if not self._turn.locked():
            async with self._turn:
                await self._reconnecting.let_go()

    async def close(self) -> None:
        """Close the session."""
        await self._reconnecting.close()

    async def _recover(self, session: Session, error: MQIError) -> None:
        """After a failed put, keep the session if the next put can use it; otherwise close it."""
        if await self._reconnecting.lose(error):
            return
        if classify(int(error.reason)) is Class.REOPEN:
            await self._reconnecting.close()
        else:
            await session.settle(Settlement.BACKOUT)


async def put_and_commit(session: Session, message: Outgoing, send: Send, broadcast: Broadcast) -> Put:
    """Put the message on the session and commit it. Raises the `MQIError` of the put or of the commit.

    If nobody can know whether the commit took effect, an `InDoubt` event names the message.
    """
    put = await send(message)
    reason: int | None = Reason.CALL_INTERRUPTED  # asyncio's own cancellation ignores the shield of a settlement
    try:
        await session.settle(Settlement.COMMIT)
        reason = None
    except MQIError as error:
        reason = int(error.reason) if leaves_in_doubt(error) else None
        raise
    finally:
        if reason is not None:
            sent = (put.descriptor.message_id,)
            broadcast(InDoubt(queue=message.queue, listener="put", reason=reason, message_ids=(), put_message_ids=sent))
    return put
