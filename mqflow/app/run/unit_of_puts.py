"""One unit of work with the puts of several calls. Each call gets its own result, and one commit is for all calls.

If a caller is cancelled before the commit, the unit of work is backed out. The puts of the other calls are then made again,
with the same MsgIds. A request puts on a session of its own, because the queue for its reply exists as long as the session.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.app.run.put_call import PutCall, Stage, put_all
from mqflow.events import InDoubt
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify, leaves_in_doubt
from mqflow.policy.shared_puts import CONNECTIONS_MAX, AfterBackout, after_backout
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.stage import Stager
from mqflow.runtime.hooks import Broadcast
from mqflow.verbs import Put

__all__ = ("UnitOfPuts", "Way", "in_doubt", "put_and_commit", "put_on_next_connections")


class Way(Struct, frozen=True):
    """The session and the functions that each of its units of work needs."""

    reconnecting: ReconnectingSession
    stager: Stager
    broadcast: Broadcast
    #: True if a call whose connection is lost waits for the next connection and puts again.
    waits: bool


class UnitOfPuts:
    """The open unit of work of a session, with the puts of several calls."""

    __slots__ = ("_session", "_stale", "calls", "left_over", "way")

    def __init__(self, way: Way, calls: Sequence[PutCall]) -> None:
        self.way: Final = way
        self.calls: Sequence[PutCall] = calls
        #: The calls that found no room, because the queue manager accepts no more messages in this unit of work (2024).
        self.left_over: list[PutCall] = []
        self._session: Session | None = None
        #: True if a handle of the session cannot be used any more, so that the session must be closed.
        self._stale = False

    async def put(self) -> None:
        """Put each message that is not in the unit of work yet. If a message is refused, its call has the error afterwards.

        After a lost connection, put all messages again on the next connection if `way.waits` is true. Raises the error of
        `ReconnectingSession.get`.
        """
        reconnecting = self.way.reconnecting
        while todo := [call for call in self.calls if len(call.puts) < len(call.messages) and call.wanted]:
            if self._session is None:
                self._session = await reconnecting.get(of_now=True)
            try:
                loser = await self._session.call(put_all, self._session, todo, self.way.stager)
            except BaseException:  # for example `Task.cancel` of asyncio: the unit of work is unknown
                await self._drop_session()
                raise
            if loser is None:
                if not all(call.is_complete for call in todo):
                    self._note_refusals()
                return
            await self._after_loss(loser)

    async def finish(self) -> None:
        """Commit the puts of the wanted calls, once. Each call has its results or its error afterwards.

        Raises the error of `ReconnectingSession.get` if no new connection can be made. Then nothing of this unit was committed,
        and no message of a call without an error is on a queue.
        """
        while not all(call.is_complete for call in self.calls):
            if any(call.puts and not call.wanted for call in self.calls):
                await self._back_out()
            self.calls = [call for call in self.calls if call.wanted and call.messages]
            await self.put()
        if self.calls and self._session is not None:
            await self._commit(self.calls, self._session)
        if self._stale:
            await self._drop_session()

    def fail(self, error: BaseException) -> None:
        """Give the error to each call that has no result, as a separate error object for each call."""
        for call in self.calls:
            if call.error is None and call.stage is not Stage.OVER:
                call.error = error if len(self.calls) == 1 else _own(error)

    def _in_doubt(self, call: PutCall, reason: int, error: BaseException) -> MQIError:
        """Return the error for the caller. If the caller was cancelled during the commit, its event was reported already."""
        broadcast = None if call.withdrawn else self.way.broadcast
        return in_doubt(broadcast, call.messages[0][0].queue, call.message_ids, reason, error)

    async def _commit(self, calls: Sequence[PutCall], session: Session) -> None:
        for call in calls:
            call.enter(Stage.COMMITTING)
        try:
            await session.settle(Settlement.COMMIT)
        except MQIError as error:
            in_doubt_now = [] if error.reason == Reason.BACKED_OUT else calls
            for call in in_doubt_now:
                call.error = self._in_doubt(call, int(error.reason), error)
            self._session = None
            lost = await _loses_connection(self.way.reconnecting, session, error)
            if not in_doubt_now:
                await self._after_backout(error, lost=lost)
        except BaseException as error:  # `Task.cancel` of asyncio ignores the shield of a commit
            for call in calls:
                call.error = self._in_doubt(call, Reason.CALL_INTERRUPTED, error)
            await self._drop_session()
            raise
        else:
            for call in calls:
                call.enter(Stage.OVER)

    async def _after_backout(self, error: MQIError, *, lost: bool) -> None:
        self._undo()
        calls, first = self.calls, self.calls[0]
        first.lost += lost and len(calls) == 1
        for call in calls:
            call.enter(Stage.WAITING)
        match after_backout(calls=len(calls), connection_lost=lost, connections_lost=first.lost, waits=self.way.waits):
            case AfterBackout.FAIL:
                self.fail(error)
            case AfterBackout.PUT_AGAIN:
                await self.put()
                await self.finish()
            case AfterBackout.PUT_EACH_ALONE:
                for call in calls:
                    await self._alone(call)

    async def _alone(self, call: PutCall) -> None:
        unit = UnitOfPuts(self.way, [call])
        try:
            await unit.put()
            await unit.finish()
        except MQIError as error:
            unit.fail(error)

    async def _after_loss(self, loser: PutCall) -> None:
        """Undo all puts after the connection was lost in one of them. If `way.waits` is false, no call puts again."""
        error = loser.error
        assert isinstance(error, MQIError)  # noqa: S101 - only such an error loses a connection
        await self.way.reconnecting.lose(error)
        affected = [call for call in self.calls if call.puts and call is not loser]
        self._undo()
        self._session = None
        loser.lost += 1
        if self.way.waits and loser.lost < CONNECTIONS_MAX:
            loser.error = None
        if not self.way.waits:
            detail = "Another put of the same unit of work has lost the connection before the commit, so nothing was put"
            for call in affected:
                queue = call.messages[0][0].queue
                call.error = error_for(int(error.reason), "MQPUT", queue, error.queue_manager, detail)

    def _note_refusals(self) -> None:
        refused = [call for call in self.calls if isinstance(call.error, MQIError)]
        self._stale = self._stale or any(classify(_reason(call)) is Class.REOPEN for call in refused)
        if any(call.puts and call.wanted for call in self.calls):
            self.left_over = [call for call in refused if _reason(call) == Reason.SYNCPOINT_LIMIT_REACHED and not call.puts]
            for call in self.left_over:
                call.error = None
            self.calls = [call for call in self.calls if call not in self.left_over]

    async def _back_out(self) -> None:
        """Back out the unit of work. If the backout fails, close the session, which also backs out the unit of work."""
        session = self._session
        try:
            if session is not None:
                await session.settle(Settlement.BACKOUT)
        except MQIError as error:
            if not await self.way.reconnecting.lose(error):
                await self.way.reconnecting.close()
            self._session = None
        except BaseException:
            await self._drop_session()
            raise
        self._undo()

    async def _drop_session(self) -> None:
        self._session = None
        for call in self.calls:
            if call.stage is Stage.WAITING:
                call.undo()
        await self.way.reconnecting.close()

    def _undo(self) -> None:
        for call in self.calls:
            call.undo()


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
            is_lost = await _loses_connection(reconnecting, session, error)
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


async def _loses_connection(reconnecting: ReconnectingSession, session: Session, error: MQIError) -> bool:
    """After a failed put, keep the session if the next put can use it. Return whether the connection is lost."""
    if await reconnecting.lose(error):
        return True
    if classify(int(error.reason)) is not Class.REOPEN:
        try:
            await session.settle(Settlement.BACKOUT)
        except MQIError as refused:  # if the backout fails, the connection cannot be used again
            if await reconnecting.lose(refused):
                return True
        else:
            return False
    await reconnecting.close()
    return False


def in_doubt(
    broadcast: Broadcast | None, queue: str, message_ids: Sequence[bytes], reason: int, error: BaseException | None = None
) -> MQIError:
    """Report that nobody knows whether these messages were committed. Return the error for their caller."""
    if broadcast is not None:
        broadcast(InDoubt(queue=queue, listener="put", reason=reason, message_ids=(), put_message_ids=tuple(message_ids)))
    names = ", ".join(each.hex() for each in message_ids)
    manager, detail = (error.queue_manager, error.detail) if isinstance(error, MQIError) else ("", "")
    said = f"{detail or 'No answer came'}. Message{'s' if len(message_ids) > 1 else ''} {names} may be on {queue}"
    made = error_for(reason, "MQCMIT", "", manager, said)
    made.__cause__ = error
    return made


def _reason(call: PutCall) -> int:
    return int(call.error.reason) if isinstance(call.error, MQIError) else 0


def _own(error: BaseException) -> BaseException:
    """Return a separate error object for one caller. A shared one would collect the tracebacks of all callers."""
    if not isinstance(error, MQIError):
        return error
    made = error_for(int(error.reason), error.verb, error.object_name, error.queue_manager, error.detail)
    made.__cause__ = error
    return made
