"""Moves poison messages off their queue, outside any unit of work of delivery, on a session of its own.

*Get it by its token, else by MsgId and CorrelId, under syncpoint, decide again on what is now held, put, commit.* Safe because
the decision is pure and the get is exact: whoever finds nothing there knows that somebody else has dealt with it.
Decides nothing itself.
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
from mqflow.runtime.connection.reconnecting_session import ReconnectingSession
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.listener.long_retries import get_again, with_all_backouts
from mqflow.runtime.listener.move_poison import Disposal, PoisonMover
from mqflow.verbs import GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("INPUT", "Requeuer", "Task")

# A message that is moved keeps its properties, whatever PROPCTL hides.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_UNDER_CURSOR: Final = GetOptions(options=GetOption.MSG_UNDER_CURSOR | GetOption.SYNCPOINT | _AS_IT_IS)
INPUT: Final = OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING


class Task(Struct, frozen=True, kw_only=True):
    """One message to move."""

    message_id: bytes
    correlation_id: bytes
    #: MsgToken of its delivery, which tells it from others with the same identifiers; zeros where there is none.
    message_token: bytes = bytes(16)
    #: What its BackoutCount is by now, at least: tells it from another message with the same identifiers.
    backout_count: int
    #: The decision, taken again on the descriptor as it is when the message is held.
    decide: Callable[[MessageDescriptor], backout.Plan]
    #: The generation of what it is decided on: a decision does not outlive its connection.
    generation: int
    #: What the folder of an added RFH2 says.
    why: moved_message.Why
    #: Puts the record of what became of it, on the session that carried it out: before the commit, or after the backout.
    record: Callable[[Session, Disposal], Awaitable[None]] | None = None


class Requeuer:
    """Of one listener; shared by its workers, one move at a time."""

    def __init__(
        self, queue: str, supervisor: Supervisor, *, behaviour: Behaviour, application_name: str, clock: Clock
    ) -> None:
        #: Of a subscription known only once it is there; whoever sets it calls `close`.
        self.queue = queue
        self._behaviour = behaviour
        self._application_name = application_name
        self._clock = clock
        self._turn = anyio.Lock(fast_acquire=True)  # no pause between the backout of a message and its move
        self._supervisor: Final = supervisor
        self._lasting: Final = ReconnectingSession(supervisor, f"requeuer of {queue}")
        supervisor.rests(self._let_go)

    async def prepare(self) -> None:
        """Have session and handle ready, so that a message can be moved the moment it is backed out.

        Quiet: what cannot be had now, `move` will raise.
        """
        async with self._turn:
            with suppress(MQIError):
                await self._open()

    def is_elsewhere(self, session: Session) -> bool:
        """Whether it is connected to another queue manager than this session: any of a group may have answered."""
        return self._lasting.queue_manager_name not in {"", session.connection.queue_manager_name}

    async def move(self, task: Task) -> Disposal | None:
        """Return what became of the message, or None where it is not on the queue any more.

        None too where the connection is another one than it was decided on: its queue manager may say otherwise by now, so the
        message is delivered again, and decided about afresh. A `Return` is backed out and stays. Raises `MQIError`: nothing was
        done, or for 2009 and 2549 out of the commit, it is not known whether it was.
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
        """As `move`, in a unit of work of its own on this session: for a listener that holds its queue exclusively."""
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
        """As `move_on`, where messages with the same identifiers are on the queue: the one that was backed out that often.

        Not the one with the token `passed`: it was got and is another, and that backout was not its own fault.
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
                    continue  # somebody else has got it since
                return None if got is None else await self._settle(session, handle, task, with_all_backouts(got))
            return None
        finally:
            await session.call(connection.close, handle)

    async def _settle(self, session: Session, handle: ObjectHandle, task: Task, got: Got) -> Disposal:
        """Carry out what is decided about the message now held, and end the unit of work."""
        plan = task.decide(got.descriptor)
        if plan == (Deliver(),):  # an application's own decision may change its mind; then nothing is to be moved
            await session.settle(Settlement.BACKOUT)
            return Disposal((Attempt(Deliver()),))
        mover = PoisonMover(session, handle, self.queue, self._behaviour, self._application_name, self._clock)
        try:
            disposal = await mover.carry_out(got, plan, task.why)
        except MQIError:
            with suppress(MQIError):  # where the connection is lost, its queue manager has backed out already
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
        """Let go of the session."""
        await self._lasting.close()

    async def _let_go(self) -> None:
        """Rest without a session; who is at work finds out by itself."""
        if not self._turn.locked():
            async with self._turn:
                await self._lasting.let_go()

    async def _open(self) -> tuple[Session, ObjectHandle]:
        session = await self._lasting.get(of_now=True, at_once=True)
        return session, await session.call(session.openings.hold, self.queue, INPUT)

    async def _recover(self, error: MQIError) -> None:
        """Drop what the error made useless: the session with a lost connection, the handle of a queue that changed."""
        match classify(int(error.reason)):
            case Class.RECONNECT:
                await self._lasting.lose(error)
            case Class.REOPEN:
                await self._lasting.close()
            case _:
                return


def _browsed(task: Task) -> GetOptions:
    return GetOptions(
        options=GetOption.BROWSE_NEXT | _AS_IT_IS,
        match=MatchOption.MSG_ID | MatchOption.CORREL_ID,
        message_id=task.message_id,
        correlation_id=task.correlation_id,
    )
