"""Moves poison messages off their queue, outside any unit of work of delivery, on a session of its own.

*Get it by MsgId and CorrelId under syncpoint, decide again on what is now held, put, commit.* Safe because the decision is pure
and the get is exact: whoever finds nothing there knows that somebody else has dealt with it. Decides nothing itself.
Source: IBM q032280: for a MessageListener "the requeue process takes place outside of any unit of work associated with actual
message delivery to the application".
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
from msgspec import Struct

from mqflow.ambient import Clock
from mqflow.events import Attempt
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.policy import backout, moved, reconnection
from mqflow.policy.disposition import Behaviour, Deliver, Return, Settlement
from mqflow.runtime.disposal import Disposal, Mover
from mqflow.runtime.session import Session
from mqflow.runtime.supervisor import Supervisor
from mqflow.verbs import GetOptions, ObjectHandle

__all__ = ("INPUT", "Requeuer", "Task")

INPUT: Final = OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING


class Task(Struct, frozen=True, kw_only=True):
    """One message to move."""

    message_id: bytes
    correlation_id: bytes
    #: The decision, taken again on the descriptor as it is when the message is held.
    decide: Callable[[MessageDescriptor], backout.Plan]
    #: What the folder of an added RFH2 says.
    why: moved.Why


class Requeuer:
    """Of one listener; shared by its workers, one move at a time."""

    def __init__(
        self, queue: str, supervisor: Supervisor, *, behaviour: Behaviour, application_name: str, clock: Clock
    ) -> None:
        self._queue: Final = queue
        self._supervisor = supervisor
        self._behaviour = behaviour
        self._application_name = application_name
        self._clock = clock
        self._turn = anyio.Lock(fast_acquire=True)  # no pause between the backout of a message and its move
        self._session: Session | None = None
        self._handle: ObjectHandle | None = None

    async def prepare(self) -> None:
        """Have session and handle ready, so that a message can be moved the moment it is backed out.

        Quiet: what cannot be had now, `move` will raise.
        """
        async with self._turn:
            with suppress(MQIError):
                session = self._session or await self._connect()
                if self._handle is None:
                    await self._open(session)

    async def move(self, task: Task) -> Disposal | None:
        """Return what became of the message, or None where it is not on the queue any more.

        A `Return` is backed out and stays. Raises `MQIError`: nothing was done, or for 2009 and 2549 out of the commit, it is
        not known whether it was.
        """
        async with self._turn:
            try:
                session = self._session or await self._connect()
                handle = self._handle or await self._open(session)
                return await self.move_on(session, handle, task)
            except MQIError as error:
                await self._recover(error)
                raise
            except anyio.get_cancelled_exc_class():
                await self.close()  # backs out what the move had begun
                raise

    async def move_on(self, session: Session, handle: ObjectHandle, task: Task) -> Disposal | None:
        """As `move`, in a unit of work of its own on this session: for a listener that holds its queue exclusively."""
        wanted = GetOptions(
            options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING,
            match=MatchOption.MSG_ID | MatchOption.CORREL_ID,
            message_id=task.message_id,
            correlation_id=task.correlation_id,
        )
        got = await session.call(session.connection.get, handle, wanted)
        if got is None:
            return None
        plan = task.decide(got.descriptor)
        if plan == (Deliver(),):  # the count fell, or the queue's settings changed: it may be delivered after all
            await session.settle(Settlement.BACKOUT)
            return Disposal((Attempt(Deliver()),))
        mover = Mover(session, handle, self._queue, self._behaviour, self._application_name, self._clock)
        try:
            disposal = await mover.carry_out(got, plan, task.why)
        except MQIError:
            with suppress(MQIError):  # where the connection is lost, its queue manager has backed out already
                await session.settle(Settlement.BACKOUT)
            raise
        stays = isinstance(disposal.disposition, Return)
        await session.settle(Settlement.BACKOUT if stays else Settlement.COMMIT)
        return disposal

    async def close(self) -> None:
        """Let go of the session."""
        session, self._session, self._handle = self._session, None, None
        if session is not None:
            with anyio.CancelScope(shield=True):
                await session.close()

    async def _connect(self) -> Session:
        self._session = await self._supervisor.connect()
        return self._session

    async def _open(self, session: Session) -> ObjectHandle:
        self._handle = await session.call(session.connection.open, self._queue, INPUT)
        return self._handle

    async def _recover(self, error: MQIError) -> None:
        """Drop what the error made useless: the session with a lost connection, the handle of a queue that changed."""
        match reconnection.classify(int(error.reason)):
            case reconnection.Class.RECONNECT:
                self._supervisor.lost(error)
                await self.close()
            case reconnection.Class.REOPEN:
                self._handle = None
            case _:
                return
