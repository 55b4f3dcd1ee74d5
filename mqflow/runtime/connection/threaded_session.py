"""A session with its own thread, for connections whose verbs block: a served queue manager, pymqi, ibmmq.

One request to the thread settles the last unit of work and gets the next unit. With a `PipelinedConnection`, the thread also
gets units ahead, which means before the worker is ready for them. The session makes no decision about messages.
"""

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, ParamSpec, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from mqflow.many_verbs import disconnect_without_commit, take_unit, without_wait
from mqflow.mqi.errors import CallInterruptedError, MQIError, error_for
from mqflow.mqi.options import GetOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot
from mqflow.runtime.connection.open_objects import OpenObjects
from mqflow.runtime.connection.session_limits import arrivals_within, raise_if, settlement_reply
from mqflow.verbs import (
    Connection,
    Exchange,
    FusedConnection,
    GetOptions,
    Got,
    InterruptibleConnection,
    ObjectDescriptor,
    ObjectHandle,
    PipelinedConnection,
    SettledMany,
)
from mqflow.world import Mailbox, MailboxEmptyError, Runner

__all__ = ("ThreadedSession",)

P = ParamSpec("P")
T = TypeVar("T")

# If the connection cannot interrupt a wait, the application notices a request to stop only at the end of a wait.
_THREADED_WAIT_MS: Final = 1_000
_INTERRUPTED_WAIT_MS: Final = 120_000
# If a handler takes this long, other workers get the messages that were got ahead for its worker.
_SLOW_HANDLER_S: Final = 0.1
_MISSES_MAX: Final = 3
_TRY_AGAIN: Final = 32


class ThreadedSession:
    """Runs each verb on the session's own thread. This thread also connects, because handles can belong to a thread (2018)."""

    generation: int
    connection: Connection
    open_objects: OpenObjects
    _fused: FusedConnection | None
    _interruptible: InterruptibleConnection | None
    _pipelined: PipelinedConnection | None
    #: The largest number of commits of a worker that are not answered yet.
    unanswered_max: Final = 32

    def __init__(self, runner: Runner) -> None:
        self._loop_caller = LoopCaller()
        #: Makes the objects that the session's thread can wait for.
        self.runner: Final = runner
        self._requests: Mailbox[tuple[Callable[[], object], OneShot | None] | None] = runner.mailbox()
        self._interrupted = False
        self._closed = False
        #: True if the thread has ended, so that it answers no request.
        self._ended = False
        #: True if a settlement got no answer in time. The thread still waits in that call.
        self._stuck = False
        #: True if the current exchange has settled the unit of work, and now gets the next unit.
        self._settled = False
        #: The functions that receive the answers of commits that the thread has not made yet, in order.
        self._behind: deque[Callable[[MQIError | None], None]] = deque()
        #: True if the thread was asked to make these commits.
        self._is_called = False
        #: The messages of the units of work that were got ahead, in order.
        self._ahead: deque[Sequence[Got]] = deque()
        #: The messages that were got ahead and that the thread could not put back on their queue, because the connection was
        #: lost.
        self._lost_ahead: list[Sequence[Got]] = []
        #: The largest number of units to get ahead, and the handle, the options and the size of these units.
        self._units_max = 0
        self._get: tuple[ObjectHandle, GetOptions, int] | None = None
        #: The first is the number of requests in a row that got no message ahead. The second is the number of commits since
        #: then that did not try to get ahead.
        self._misses = self._skipped = 0
        self.abandoned: bool = False
        self.lingering: Sequence[Got] = ()
        runner.start(self._serve, "mqflow session")

    @classmethod
    async def connected(
        cls, connect: Callable[[], Connection], runner: Runner, open_objects: Callable[[Connection], OpenObjects] = OpenObjects
    ) -> "ThreadedSession":
        """Return a session whose thread has connected.

        MQCONNX can take minutes. If the caller is cancelled, it does not wait: the thread closes the connection when MQCONNX
        ends.
        """
        session = cls(runner)
        made: list[Connection] = []
        answer = OneShot(session._loop_caller)
        session._requests.put((lambda: made.append(connect()), answer))
        try:
            _, error = await answer.wait()
            raise_if(error)
        except BaseException:
            session._requests.put((lambda: _disconnect_all(made), OneShot(session._loop_caller)))
            session._requests.put(None)
            raise
        [session.connection] = made
        session.open_objects = open_objects(session.connection)
        session._fused = session.connection if isinstance(session.connection, FusedConnection) else None
        session._pipelined = session.connection if isinstance(session.connection, PipelinedConnection) else None
        session._interruptible = session.connection if isinstance(session.connection, InterruptibleConnection) else None
        return session

    def _serve(self) -> None:
        while (request := self._next_request()) is not None:
            work, answer = request
            if answer is None:
                work()
                continue
            try:
                answer.pass_on((work(), None))
            except BaseException as error:  # noqa: BLE001 - passed to the caller, whose task raises it
                answer.pass_on((None, error))

    def _next_request(self) -> tuple[Callable[[], object], OneShot | None] | None:
        """Return the next request. If no request comes for a moment, the handler is slow: put back what was got ahead."""
        if self._ahead:
            try:
                return self._requests.get(timeout=_SLOW_HANDLER_S)
            except MailboxEmptyError:
                self._give_back()
        return self._requests.get()

    def _give_back(self) -> None:
        """Put the messages that were got ahead back at their places on the queue. Runs on the session's thread."""
        units = list[Sequence[Got]]()
        with contextlib.suppress(IndexError):  # at the same time, the worker can take units from the other end
            while True:
                units.append(self._ahead.pop())
        if units and self._pipelined is not None:
            try:
                self._pipelined.give_back(len(units))
            except MQIError:  # the connection is lost; the next verb reports it
                self._lost_ahead += units

    def _check_open(self) -> None:
        if self._ended:
            raise error_for(Reason.HCONN_ERROR, "A call", detail="The session is closed")

    async def _run(self, work: Callable[[], T], *, in_unit_of_work: bool = True) -> T:
        """Run the work on the session's thread, and return its result. A verb cannot be cancelled, so the wait is shielded.

        `in_unit_of_work` is true if the work can change the unit of work. If the caller abandons such work, the state of the
        unit is unknown.
        """
        answer = self.begin(work)
        reply: tuple[Any, BaseException | None] = (None, None)
        with anyio.CancelScope(shield=True):
            try:
                reply = await answer.wait()
            except BaseException:
                self.abandoned = self.abandoned or in_unit_of_work
                raise
        result, error = reply
        raise_if(error)
        return result  # type: ignore[no-any-return]  # the result of `work`, through the untyped `OneShot`

    def begin(self, work: Callable[[], object]) -> OneShot:
        """Run the work on the session's thread. The caller waits for the answer, or calls `leave` before the answer comes."""
        self._check_open()
        answer = OneShot(self._loop_caller)
        self._requests.put((work, answer))
        return answer

    def leave(self) -> None:
        """Record that nobody waits for the thread any more. When its work ends, the thread backs out; `close` does not wait."""
        self._stuck = True

    @property
    def detects_dead_peers(self) -> bool:
        """True if the connection itself ends a call that gets no answer."""
        return self._fused is not None

    @property
    def has_settled(self) -> bool:
        """True if the current `exchange_here` has settled the unit of work, and now gets the next unit."""
        return self._settled

    def exchange_here(self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, most: int) -> Exchange:
        """Settle and get like `exchange`, from code that already runs on the session's thread."""
        self._settled = False
        return self._exchange(settlement, handle, options, most)

    @property
    def pipelines(self) -> bool:
        """True if the next unit of work can begin before a commit is answered."""
        return self._pipelined is not None

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, most: int) -> Sequence[Got]:
        """Return the messages of the next unit of work if it was got ahead; otherwise return an empty sequence."""
        self._get = handle, options, most
        try:
            return self._ahead.popleft()
        except IndexError:  # the thread can put messages back at any time
            return ()

    def commit_behind(self, done: Callable[[MQIError | None], None], units_max: int) -> bool | None:
        """Commit the open unit of work like `InlineSession.commit_behind`, and get up to `units_max` units ahead.

        One request of the thread makes all commits that wait. The thread makes them before any verb that is called after them.
        """
        self._check_open()
        if self._pipelined is None or self._get is None or not self._pipelined.only_removes or self._skips():
            return None
        self._units_max = units_max
        self._behind.append(done)
        if not self._is_called:
            self._is_called = True
            self._requests.put((self._settle_behind, None))
        return False

    def _skips(self) -> bool:
        """Return whether the worker must commit and get in one request, because the last requests got no message ahead.

        In this case the queue is often empty, or its messages cannot be got ahead. At every 32nd commit, the thread tries again
        to get ahead.
        """
        if self._misses < _MISSES_MAX or self._behind or self._ahead:
            return False
        self._skipped = (self._skipped + 1) % _TRY_AGAIN
        return self._skipped != 0

    def lost_ahead(self) -> list[Got]:
        """After the loss of the connection, return the messages that were got ahead, and forget them."""
        with contextlib.suppress(IndexError):
            while True:
                self._lost_ahead.append(self._ahead.popleft())
        lost, self._lost_ahead = self._lost_ahead, []
        return [got for unit in lost for got in unit]

    def _settle_behind(self) -> None:
        """Commit the waiting units of work, and get further units. Runs on the thread."""
        assert self._pipelined is not None  # noqa: S101 - `commit_behind` has checked it
        assert self._get is not None  # noqa: S101 - as above
        self._is_called = False  # must come first: a commit that is added from now on makes a new request
        waiting = [self._behind.popleft() for _ in range(len(self._behind))]
        if not waiting:
            return
        handle, options, most = self._get
        units = 0 if self._interrupted else max(0, self._units_max - len(self._ahead))
        try:
            answer = self._pipelined.settle_many(handle, options, commits=len(waiting), most=most, units=units)
        except BaseException as error:  # noqa: BLE001 - every commit needs an answer
            unknown = error_for(Reason.CALL_INTERRUPTED, "MQCMIT", detail=repr(error))
            answer = SettledMany([unknown] * len(waiting))
        if units:
            self._misses = 0 if answer.units else self._misses + 1
        self._ahead.extend(answer.units)
        for done, refused in zip(waiting, answer.errors, strict=True):
            self._loop_caller(partial(done, refused))

    async def call(self, verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call the verb on the session's thread, and return its result."""
        return await self._run(lambda: verb(*args, **options))

    async def output(self, target: ObjectDescriptor | str) -> ObjectHandle:
        """Return a handle of the queue or topic, open for output. `OpenObjects.output` describes the handle and the errors."""
        return await self._run(lambda: self.open_objects.output(target), in_unit_of_work=False)

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Settle and get like `Session.exchange`, in one request. If no call can interrupt a wait, make several short waits."""
        left_ms = options.wait_ms if options.options & GetOption.WAIT and settlement is None else 0
        wait_ms_max = _INTERRUPTED_WAIT_MS if self._interruptible is not None else _THREADED_WAIT_MS
        while True:
            wait_ms = wait_ms_max if left_ms < 0 else min(left_ms, wait_ms_max)
            wanted = _with_wait(options, wait_ms) if wait_ms else without_wait(options)
            work = partial(self._exchange, settlement, handle, wanted, most)
            if settlement is None or self._fused is not None:  # a fused connection ends a call without an answer itself
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
        if settlement is None:  # the first unit that was got ahead can be the open unit
            self._give_back()
        if self._fused is not None and not self._interrupted:
            commit = None if settlement is None else settlement is Settlement.COMMIT
            exchange = self._fused.exchange(handle, options, commit=commit, most=most)
            self._end_ahead(exchange.settle_error)
            self.lingering = exchange.lost
            return exchange
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
            self.lingering = unit = [first]
            take_unit(self.connection, handle, unit, without_wait(options), most)
        except MQIError as error:
            return Exchange(get_error=error)
        self.lingering = ()
        return Exchange(unit=unit)

    async def _linger(self, unit: list[Got], handle: ObjectHandle, options: GetOptions, most: int, linger_ms: int) -> list[Got]:
        def wait(left_ms: int) -> Awaitable[Got | None]:
            return self._run(partial(self.connection.get, handle, _with_wait(options, left_ms)))

        self.lingering = unit
        async with contextlib.aclosing(arrivals_within(unit, most, linger_ms, wait)) as arrivals:
            async for more in arrivals:
                unit.append(more)
                await self._run(partial(take_unit, self.connection, handle, unit, without_wait(options), most))
        self.lingering = ()
        return unit

    def _settle(self, settlement: Settlement) -> None:
        try:
            if settlement is Settlement.COMMIT:
                self.connection.commit()
            else:
                self.connection.backout()
        except MQIError as error:
            self._end_ahead(error)
            raise
        self._end_ahead(None)

    def _end_ahead(self, error: MQIError | None) -> None:
        """Forget the messages that were got ahead: the settlement has returned them to their places on the queue.

        If the settlement has lost the connection, they stay here for `lost_ahead`.
        """
        if error is None or not needs_reconnect(error):
            self._ahead.clear()

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work, shielded from cancellation and with a time limit."""
        answer = self.begin(lambda: self._settle(settlement))
        try:
            await settlement_reply(answer, settlement, self.connection.queue_manager_name)
        finally:
            self._stuck = not answer.has_come

    async def _settle_and_get(self, work: Callable[[], Exchange], settlement: Settlement) -> Exchange:
        """Run the work on the session's thread, shielded from cancellation, and return its result.

        The settlement has a time limit. The get after it has no time limit.
        """
        self._settled = False
        answer = self.begin(work)
        try:
            try:
                # The request was `work`, which returns an `Exchange`.
                return cast("Exchange", await settlement_reply(answer, settlement, self.connection.queue_manager_name))
            except CallInterruptedError as error:
                if not self._settled:
                    return Exchange(settle_error=error)
            return await _arrival(answer)
        except BaseException:
            self.abandoned = True
            raise
        finally:
            self._stuck = not answer.has_come

    def interrupt(self) -> None:
        """End the wait of an `exchange`: immediately if the connection can be interrupted, otherwise within a second."""
        self._interrupted = True
        if self._interruptible is not None:
            self._interruptible.interrupt()

    async def close(self) -> None:
        """Back out, disconnect and end the thread.

        If the thread is stuck in a settlement, it does this when that call ends, and the caller does not wait.
        """
        if self._closed:
            return
        self._closed = True
        if self._stuck:
            self._requests.put((self._disconnect, OneShot(self._loop_caller)))
        else:
            await self._run(self._disconnect)
        self._ended = True
        self._requests.put(None)

    def _disconnect(self) -> None:
        self._give_back()
        disconnect_without_commit(self.connection)


@lru_cache(maxsize=64)
def _with_wait(options: GetOptions, wait_ms: int) -> GetOptions:
    return replace(options, options=options.options | GetOption.WAIT, wait_ms=wait_ms)


def _disconnect_all(connections: Sequence[Connection]) -> None:
    for each in connections:
        disconnect_without_commit(each)


async def _arrival(answer: OneShot) -> Exchange:
    """Return the exchange when it has arrived. The wait is shielded from cancellation."""
    exchange, error = Exchange(), None
    with anyio.CancelScope(shield=True):
        exchange, error = await answer.wait()
    raise_if(error)
    return exchange
