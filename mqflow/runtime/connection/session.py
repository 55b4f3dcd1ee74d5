"""A connection made awaitable, one unit of work at a time, in two forms that behave alike.

`InlineSession` calls the verbs where it stands (the embedded queue manager in this process): only a wait and a durable
commit suspend. `ThreadedSession` gives a connection a thread of its own (whatever blocks: a served queue manager, pymqi,
ibmmq), and one hand-over settles the last unit of work and gets the next. Decides nothing about messages.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from mqflow.many_verbs import disconnect_without_commit, take_unit, without_wait
from mqflow.mqi.errors import CallInterruptedError, MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reconnection import Class, classify
from mqflow.runtime.connection.loop_call import Handover, OneShot
from mqflow.runtime.connection.open_objects import Openings
from mqflow.verbs import (
    Connection,
    Exchange,
    FusedConnection,
    GetOptions,
    Got,
    InlineConnection,
    InlineQueueManager,
    InterruptibleConnection,
    ObjectHandle,
    QueueManager,
)
from mqflow.world import Mailbox, Runner

__all__ = ("SETTLE_DEADLINE_S", "Exchange", "InlineSession", "Session", "ThreadedSession", "open_session")

T = TypeVar("T")

SETTLE_DEADLINE_S: Final = 30.0
"""How long a settlement may take before its outcome is called unknown."""
# How long a stop may go unheard, where a wait cannot be interrupted.
_THREADED_WAIT_MS: Final = 1_000
_INTERRUPTED_WAIT_MS: Final = 120_000
_TURNS_BEFORE_YIELD: Final = 64


class Session(Protocol):
    """One connection, one unit of work at a time, used by one task at a time."""

    #: Which return of the connection it belongs to, as its supervisor counts them.
    generation: int
    #: A caller went away before its verb had ended (asyncio's own cancellation goes through a shield): nobody knows what that
    #: verb did in the unit of work, so it is to be backed out.
    abandoned: bool

    @property
    def connection(self) -> Connection:
        """The verbs, for `call`."""
        ...

    @property
    def openings(self) -> Openings:
        """What stays open on this connection, and is taken over by the next; for `call`."""
        ...

    async def call(self, verb: Callable[..., T], *args: Any, **options: Any) -> T:
        """Return what the verb returns; it has run to its end even where the caller was cancelled meanwhile."""
        ...

    async def output(self, queue_name: str, options: OpenOption = OpenOption.OUTPUT) -> ObjectHandle:
        """Return a handle open for output, kept for the next time."""
        ...

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Settle what is open, then wait for a message and take up to `most` without waiting longer than `linger_ms`.

        After a settlement nothing is waited for: an empty unit lets the caller tell of it before it asks again.
        A message that was backed out before is always a unit of its own, or ends one: redelivery goes one by one.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work. Shielded, once, bounded: 2549 where no answer came in time."""
        ...

    def interrupt(self) -> None:
        """Let an `exchange` that waits return with what it has."""
        ...

    async def close(self) -> None:
        """Back out what is open, then disconnect. Quiet when the connection is gone already."""
        ...


async def open_session(
    queue_manager: QueueManager,
    runner: Runner,
    application_name: str = "",
    user: str = "",
    *,
    owner: str = "",
    numbers: Iterator[int] | None = None,
) -> Session:
    """Return a new session on the queue manager, of the form that suits it; `owner` and `numbers` are for its `Openings`."""

    def opening(connection: Connection) -> Openings:
        return Openings(connection, owner, numbers)

    if isinstance(queue_manager, InlineQueueManager):
        return InlineSession(queue_manager.connect(application_name=application_name, user=user), opening)

    def connect() -> Connection:
        return queue_manager.connect(application_name=application_name, user=user)

    return await ThreadedSession.connected(connect, runner, opening)


class InlineSession:
    """Verbs are memory operations: they run where they are called."""

    def __init__(self, connection: InlineConnection, opening: Callable[[Connection], Openings] = Openings) -> None:
        self.connection: Final = connection
        self.openings: Final = opening(connection)
        self.generation = 0
        self.abandoned = False
        self._handover = Handover()
        self._waiting: OneShot | None = None
        self._answer: OneShot | None = None
        self._interrupted = False
        self._turns = 0
        self._options = self._at_once = GetOptions()

    async def call(self, verb: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call it."""
        return verb(*args, **options)

    async def output(self, queue_name: str, options: OpenOption = OpenOption.OUTPUT) -> ObjectHandle:
        """Return a handle open for output, kept for the next time."""
        return self.openings.output(queue_name, options)

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """As `Session.exchange`. Every `_TURNS_BEFORE_YIELD` turns others get theirs, however full the queue is."""
        if settlement is not None:
            try:
                await self.settle(settlement)
            except MQIError as error:
                return Exchange(settle_error=error)
        self._turns += 1
        if settlement is not None and (linger_ms or self._turns >= _TURNS_BEFORE_YIELD):
            return Exchange()  # told first: who is cancelled further on would not hear that it was settled
        if self._turns >= _TURNS_BEFORE_YIELD:
            self._turns = 0
            await checkpoint()
        try:
            return Exchange(unit=await self._take(handle, options, most, linger_ms, wait=settlement is None))
        except MQIError as error:
            return Exchange(get_error=error)

    async def _take(self, handle: ObjectHandle, options: GetOptions, most: int, linger_ms: int, *, wait: bool) -> Sequence[Got]:
        if options is not self._options:  # the same record for every get of a listener: made into another once
            self._options, self._at_once = options, without_wait(options)
        at_once = self._at_once
        first = self.connection.get(handle, at_once)
        if first is None and wait:
            first = await self._wait(handle, at_once, options.wait_ms)
        if first is None:
            return ()
        if most == 1:
            return (first,)
        unit = take_unit(self.connection, handle, first, at_once, most)
        async for more in _lingering(unit, most, linger_ms, lambda left_ms: self._wait(handle, at_once, left_ms)):
            unit += take_unit(self.connection, handle, more, at_once, most - len(unit))
        return unit

    async def _wait(self, handle: ObjectHandle, at_once: GetOptions, wait_ms: int) -> Got | None:
        """Return the next message within the wait, or None when it is over or interrupted."""
        with anyio.move_on_after(wait_ms / 1_000 if wait_ms >= 0 else None):
            while not self._interrupted:
                self._waiting = OneShot(self._handover)
                withdraw = self.connection.on_arrival(handle, at_once, self._waiting.pass_on)
                try:
                    if withdraw is not None:
                        await self._waiting.wait()
                    # Before the wait is withdrawn: one that has not got its message wakes another for it.
                    got = self.connection.get(handle, at_once)
                finally:
                    self._waiting = None
                    if withdraw is not None:
                        withdraw()
                if got is not None:
                    return got
        return None

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work; a durable commit waits for the writer, shielded and bounded."""
        if settlement is Settlement.BACKOUT:
            self.connection.backout()
            return
        answer = self._answer or OneShot(self._handover)
        self._answer = None
        if self.connection.begin_commit(answer.pass_on):
            self._answer = answer  # nobody will pass it on: it is as new for the next commit
            return
        await _in_time(answer, settlement, self.connection.queue_manager_name)

    def interrupt(self) -> None:
        """Let a waiting `exchange` return."""
        self._interrupted = True
        if self._waiting is not None:
            self._waiting.pass_on()

    async def close(self) -> None:
        """Back out, then disconnect."""
        disconnect_without_commit(self.connection)


class ThreadedSession:
    """A connection with a thread of its own, because its verbs block. The thread connects: handles may belong to it (2018)."""

    connection: Connection
    openings: Openings
    _fused: FusedConnection | None
    _interruptible: InterruptibleConnection | None

    def __init__(self, runner: Runner) -> None:
        self._handover = Handover()
        self._requests: Mailbox[tuple[Callable[[], object], OneShot] | None] = runner.mailbox()
        self._interrupted = False
        self._closed = False
        #: Nobody would answer: its thread has been let go.
        self._ended = False
        #: A settlement has got no answer in time: the thread is in it still.
        self._stuck = False
        #: Of an exchange, which settles and gets: the first of the two is done.
        self._settled = False
        self.generation = 0
        self.abandoned = False
        runner.start(self._serve, "mqflow session")

    @classmethod
    async def connected(
        cls, connect: Callable[[], Connection], runner: Runner, opening: Callable[[Connection], Openings] = Openings
    ) -> "ThreadedSession":
        """Return a session whose thread has connected.

        Who is cancelled meanwhile does not wait, for minutes it may be: what MQCONNX comes to is left by the thread.
        """
        session = cls(runner)
        made: list[Connection] = []
        answer = OneShot(session._handover)
        session._requests.put((lambda: made.append(connect()), answer))
        try:
            _, error = await answer.wait()
            _raise(error)
        except BaseException:
            session._requests.put((lambda: _leave_all(made), OneShot(session._handover)))
            session._requests.put(None)
            raise
        [session.connection] = made
        session.openings = opening(session.connection)
        session._fused = session.connection if isinstance(session.connection, FusedConnection) else None
        session._interruptible = session.connection if isinstance(session.connection, InterruptibleConnection) else None
        return session

    def _serve(self) -> None:
        while (request := self._requests.get()) is not None:
            work, answer = request
            try:
                answer.pass_on((work(), None))
            except BaseException as error:  # noqa: BLE001 - handed to the caller, whose task raises it
                answer.pass_on((None, error))

    def _check_open(self) -> None:
        if self._ended:
            raise error_for(Reason.HCONN_ERROR, "A call", detail="The session is closed")

    async def _run(self, work: Callable[[], T]) -> T:
        """Run it on the session's thread, to its end: a verb under way cannot be called back, so neither can its caller."""
        self._check_open()
        answer = OneShot(self._handover)
        self._requests.put((work, answer))
        reply: tuple[Any, BaseException | None] = (None, None)
        with anyio.CancelScope(shield=True):
            try:
                reply = await answer.wait()
            except BaseException:
                self.abandoned = True
                raise
        result, error = reply
        _raise(error)
        return result  # type: ignore[no-any-return]  # what `work` returned, through the untyped baton

    async def call(self, verb: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call it on the session's thread."""
        return await self._run(lambda: verb(*args, **options))

    async def output(self, queue_name: str, options: OpenOption = OpenOption.OUTPUT) -> ObjectHandle:
        """Return a handle open for output, kept for the next time."""
        return await self._run(lambda: self.openings.output(queue_name, options))

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """As `Session.exchange`, in one hand-over; a long wait that cannot be interrupted is cut into short ones."""
        left_ms = options.wait_ms if options.options & GetOption.WAIT and settlement is None else 0
        wait_ms_max = _INTERRUPTED_WAIT_MS if self._interruptible is not None else _THREADED_WAIT_MS
        while True:
            wait_ms = wait_ms_max if left_ms < 0 else min(left_ms, wait_ms_max)
            wanted = _with_wait(options, wait_ms) if wait_ms else without_wait(options)
            work = partial(self._exchange, settlement, handle, wanted, most)
            if settlement is None or self._fused is not None:  # one that is far away notices itself when nobody answers
                reply = await self._run(work)
            else:
                reply = await self._settle_and_get(work, settlement)
            if reply.unit and linger_ms:
                try:
                    return Exchange(unit=await self._linger(list(reply.unit), handle, options, most, linger_ms))
                except MQIError as error:
                    return Exchange(get_error=error)
            if reply.unit or reply.settle_error or reply.get_error or self._interrupted:
                return reply
            settlement = None
            left_ms -= wait_ms if left_ms > 0 else 0
            if left_ms == 0:
                return reply
            await checkpoint()

    def _exchange(self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, most: int) -> Exchange:
        if self._fused is not None and not self._interrupted:
            commit = None if settlement is None else settlement is Settlement.COMMIT
            return self._fused.exchange(handle, options, commit=commit, most=most)
        try:
            if settlement is not None:
                self._settle(settlement)
        except MQIError as error:
            return Exchange(settle_error=error)
        self._settled = True
        try:
            first = None if self._interrupted else self.connection.get(handle, options)
            if first is None:
                return Exchange()
            return Exchange(unit=take_unit(self.connection, handle, first, without_wait(options), most))
        except MQIError as error:
            return Exchange(get_error=error)

    async def _linger(self, unit: list[Got], handle: ObjectHandle, options: GetOptions, most: int, linger_ms: int) -> list[Got]:
        def wait(left_ms: int) -> Awaitable[Got | None]:
            return self._run(partial(self.connection.get, handle, _with_wait(options, left_ms)))

        async for more in _lingering(unit, most, linger_ms, wait):
            rest = most - len(unit)
            unit += await self._run(partial(take_unit, self.connection, handle, more, without_wait(options), rest))
        return unit

    def _settle(self, settlement: Settlement) -> None:
        if settlement is Settlement.COMMIT:
            self.connection.commit()
        else:
            self.connection.backout()

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work, shielded and bounded."""
        self._check_open()
        answer = OneShot(self._handover)
        self._requests.put((lambda: self._settle(settlement), answer))
        try:
            await _in_time(answer, settlement, self.connection.queue_manager_name)
        finally:
            self._stuck = not answer.has_come

    async def _settle_and_get(self, work: Callable[[], Exchange], settlement: Settlement) -> Exchange:
        """Run it on the session's thread, shielded; the settlement is bounded, and the get that follows is not."""
        self._check_open()
        self._settled = False
        answer = OneShot(self._handover)
        self._requests.put((work, answer))
        try:
            try:
                return cast("Exchange", await _in_time(answer, settlement, self.connection.queue_manager_name))
            except CallInterruptedError as error:
                if not self._settled:
                    return Exchange(settle_error=error)
            return await _come(answer)
        except BaseException:
            self.abandoned = True
            raise
        finally:
            self._stuck = not answer.has_come

    def interrupt(self) -> None:
        """Let a waiting `exchange` return: at once where the connection can, otherwise within a second."""
        self._interrupted = True
        if self._interruptible is not None:
            self._interruptible.interrupt()

    async def close(self) -> None:
        """Back out, disconnect, and let the thread go. One stuck in a settlement does that later, and is not waited for."""
        if self._closed:
            return
        self._closed = True
        if self._stuck:
            self._requests.put((lambda: disconnect_without_commit(self.connection), OneShot(self._handover)))
        else:
            await self._run(lambda: disconnect_without_commit(self.connection))
        self._ended = True
        self._requests.put(None)


async def _lingering(
    unit: list[Got], most: int, linger_ms: int, wait: Callable[[int], Awaitable[Got | None]]
) -> AsyncIterator[Got]:
    """Give what arrives while the unit has room and the linger, counted from its first message, is not over.

    A get that is refused ends it: what is in the unit was got, and the next get meets that again. A lost connection is raised.
    """
    until = anyio.current_time() + linger_ms / 1_000
    while len(unit) < most and not unit[-1].descriptor.backout_count:
        left_ms = round((until - anyio.current_time()) * 1_000)
        try:
            more = await wait(left_ms) if left_ms > 0 else None
        except MQIError as error:
            if classify(int(error.reason)) is Class.RECONNECT:
                raise
            return
        if more is None:
            return
        yield more


@lru_cache(maxsize=64)
def _with_wait(options: GetOptions, wait_ms: int) -> GetOptions:
    return replace(options, options=options.options | GetOption.WAIT, wait_ms=wait_ms)


async def _in_time(answer: OneShot, settlement: Settlement, queue_manager: str) -> object:
    """Return what a settlement came to, shielded. Raises the error it ended with; 2549, outcome unknown, without an answer."""
    with anyio.move_on_after(SETTLE_DEADLINE_S, shield=True):
        reply = await answer.wait()
        result, error = reply if isinstance(reply, tuple) else (None, reply)
        _raise(error)
        return result
    verb = "MQCMIT" if settlement is Settlement.COMMIT else "MQBACK"
    said = f"No answer came within {SETTLE_DEADLINE_S:g} s"
    raise error_for(Reason.CALL_INTERRUPTED, verb, "", queue_manager, said)


def _leave_all(connections: Sequence[Connection]) -> None:
    for each in connections:
        disconnect_without_commit(each)


async def _come(answer: OneShot) -> Exchange:
    """Return it when it comes, shielded."""
    exchange, error = Exchange(), None
    with anyio.CancelScope(shield=True):
        exchange, error = await answer.wait()
    _raise(error)
    return exchange


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error
