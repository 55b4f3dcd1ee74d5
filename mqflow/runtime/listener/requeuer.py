"""Moves poison messages off their queue, on the requeuer's own session, outside any unit of work of delivery.

The steps: get the message under syncpoint by its token, otherwise by MsgId and CorrelId; decide again about this message; put
the message; commit. This is safe because the decision is pure and the get is exact. If the message is not on the queue, another
worker has moved it. This module decides nothing itself.
Source: IBM q032280: for a MessageListener "the requeue process takes place outside of any unit of work associated with actual
message delivery to the application".
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct

from mqflow.events import Attempt
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison import backout, moved_message
from mqflow.policy.poison.disposition import Behaviour, Deliver, Return, Settlement
from mqflow.policy.reconnect.reason_classes import Class, classify
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener.long_retries import get_again, with_all_backouts
from mqflow.runtime.listener.move_poison import Disposal, PoisonMover
from mqflow.verbs import GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Requeuer", "Task")

# A message that is moved keeps its properties, whatever PROPCTL hides.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_UNDER_CURSOR: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)


class Task(Struct, frozen=True, kw_only=True):
    """One message to move."""

    message_id: bytes
    correlation_id: bytes
    #: MsgToken of the delivery; zeros if there is no token. Other messages can have the same identifiers, but not this token.
    message_token: bytes = bytes(16)
    #: The smallest BackoutCount that the message can have now. A message with the same identifiers can have a smaller count.
    backout_count: int
    #: Decides again, with the descriptor of the message that the requeuer has got.
    decide: Callable[[MessageDescriptor], backout.Plan]
    #: The generation of the attributes that the decision used: in another generation, the decision is not valid.
    generation: int
    #: The content of the RFH2 folder that is added to the message.
    why: moved_message.Why
    #: Puts the record of the disposition on the session of the move: before the commit, or after the backout.
    record: Callable[[Session, Disposal], Awaitable[None]] | None = None


class Requeuer:
    """Moves the poison messages of one listener for all its workers, one at a time."""

    def __init__(
        self,
        queue: str,
        supervisor: Supervisor,
        *,
        behaviour: Behaviour,
        application_name: str,
        clock: Clock,
        answers_requests: bool = False,
    ) -> None:
        #: The queue of a subscription is known only after MQSUB; the code that sets it calls `close`.
        self.queue = queue
        self._behaviour = behaviour
        self._application_name = application_name
        self._clock = clock
        self._answers_requests = answers_requests
        self._turn = anyio.Lock(fast_acquire=True)  # otherwise other tasks run between the backout of a message and its move
        self._supervisor: Final = supervisor
        self._reconnecting: Final = ReconnectingSession(supervisor, f"requeuer of {queue}")
        supervisor.let_go_when_quiescing(self._let_go)

    async def prepare(self) -> None:
        """Connect the session and open the queue, so that a message can be moved directly after its backout.

        Raises nothing: if the session or the handle is not available, `move` raises the error.
        """
        async with self._turn:
            with suppress(MQIError):
                await self._open()

    def is_elsewhere(self, session: Session) -> bool:
        """Return whether the requeuer and this session are on different queue managers, as members of a group can be."""
        return self._reconnecting.queue_manager_name not in {"", session.connection.queue_manager_name}

    async def move(self, task: Task) -> Disposal | None:
        """Move the message, and return its disposition; or return None if the message is not on the queue any more.

        Also return None if the connection has another generation than the decision: the attributes can be different now. The
        message is then delivered again, and a new decision is made. After a disposition `Return`, the message stays.
        Raises `MQIError` if the message was not moved. After 2009 or 2549 from the commit, nobody knows whether it was moved.
        """
        async with self._turn:
            try:
                session, handle = await self._open()
                if task.generation != self._supervisor.generation:
                    return None
                return await self.move_on(session, handle, task)
            except MQIError as error:
                await self._recover(error)
                raise

    async def move_on(self, session: Session, handle: ObjectHandle, task: Task) -> Disposal | None:
        """Move the message like `move`, in a unit of work of this session: for a listener that opens its queue exclusively."""
        ids = task.message_id, task.correlation_id, task.message_token
        got = await session.call(get_again, session.connection, handle, *ids)
        if got is None:
            return None
        got = with_all_backouts(got)
        if got.descriptor.backout_count >= task.backout_count:
            return await self._settle(session, handle, task, got)
        await session.settle(Settlement.BACKOUT)
        return await self._move_from_among(session, task, got.message_token)

    async def _move_from_among(self, session: Session, task: Task, passed: bytes) -> Disposal | None:
        """If several messages have the same identifiers, move the message with enough backouts. Return like `move_on`.

        The message with the token `passed` is left: it was got before, and is another message than the failed message.
        """
        connection = session.connection
        handle = await session.call(connection.open, self.queue, INPUT | OpenOption.BROWSE)
        try:
            while seen := await session.call(connection.get, handle, _browsed(task)):
                if with_all_backouts(seen).descriptor.backout_count < task.backout_count:
                    continue
                if any(passed) and seen.message_token == passed:
                    continue
                try:
                    got = await session.call(connection.get, handle, _UNDER_CURSOR)
                except MQIError as error:
                    if error.reason != Reason.NO_MSG_UNDER_CURSOR:
                        raise
                    continue  # another worker has got the message since the browse
                return None if got is None else await self._settle(session, handle, task, with_all_backouts(got))
            return None
        finally:
            await session.call(connection.close, handle)

    async def _settle(self, session: Session, handle: ObjectHandle, task: Task, got: Got) -> Disposal:
        """Carry out the decision about the message that was got, and end the unit of work."""
        plan = task.decide(got.descriptor)
        if plan == (Deliver(),):  # the application's own decision has changed, so the message is not moved
            await session.settle(Settlement.BACKOUT)
            return Disposal((Attempt(Deliver()),))
        mover = PoisonMover(
            session, handle, self.queue, self._behaviour, self._application_name, self._clock, self._answers_requests
        )
        try:
            disposal = await mover.carry_out(got, plan, task.why)
        except MQIError:
            with suppress(MQIError):  # after a lost connection the queue manager has backed out already
                await session.settle(Settlement.BACKOUT)
            raise
        stays = isinstance(disposal.disposition, Return)
        if stays:
            await session.settle(Settlement.BACKOUT)
        if task.record is not None:
            await task.record(session, disposal)
        if not stays:
            await session.settle(Settlement.COMMIT)
        return disposal

    async def close(self) -> None:
        """Close the session."""
        await self._reconnecting.close()

    async def _let_go(self) -> None:
        """Close the session if it is idle. A running move detects by itself that the queue manager quiesces."""
        if not self._turn.locked():
            async with self._turn:
                await self._reconnecting.let_go()

    async def _open(self) -> tuple[Session, ObjectHandle]:
        session = await self._reconnecting.get(of_now=True, at_once=True)
        return session, await session.call(session.open_objects.hold, self.queue, INPUT)

    async def _recover(self, error: MQIError) -> None:
        """After a lost connection or a changed queue, close the session. The next move opens session and queue again."""
        match classify(int(error.reason)):
            case Class.RECONNECT:
                await self._reconnecting.lose(error)
            case Class.REOPEN:
                await self._reconnecting.close()
            case _:
                return


def _browsed(task: Task) -> GetOptions:
    return GetOptions(
        options=GetOption.BROWSE_NEXT | _AS_IT_IS,
        match=MatchOption.MSG_ID | MatchOption.CORREL_ID,
        message_id=task.message_id,
        correlation_id=task.correlation_id,
    )
