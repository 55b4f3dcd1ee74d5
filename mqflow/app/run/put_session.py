"""A session for puts outside of deliveries. Puts that come during a commit wait, and then share the next commit.

If no other put is running, the caller makes its own unit of work. If callers wait after that, a task of the session makes units
of work for them until no caller waits. So a caller that is cancelled never interrupts the commit of other callers.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from mqflow.app.handlers.outgoing_message import Outgoing, Send
from mqflow.app.run.put_call import PutCall, Stage
from mqflow.app.run.unit_of_puts import UnitOfPuts, Way, in_doubt
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.shared_puts import calls_of_unit
from mqflow.runtime.cancellation import is_by_scope
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot, start_task
from mqflow.verbs import Put

__all__ = ("PutSession", "closed", "place_of_put")

_TURNS_BEFORE_YIELD: Final = 64


class _CallWithin(PutCall):
    """A call whose puts pass through middleware with `publish`, which runs in the task of the caller."""

    __slots__ = ("depth", "joined", "outer", "own", "ready", "unit", "within_unit")

    def __init__(self, *, many: bool = False) -> None:
        super().__init__(many=many)
        self.depth, self.within_unit = place_of_put()
        #: The call whose middleware has made this call; None if no middleware has made it.
        self.outer: Final = _WITHIN.get()
        #: The unit of work that has the puts of this call.
        self.unit: UnitOfPuts | None = None
        #: True if the caller itself makes this unit of work, and not the task of the session.
        self.own = False
        #: Set when the put is in the unit of work of several callers, or was refused.
        self.joined = anyio.Event()
        #: Set when the middleware of the call has ended.
        self.ready: Final = anyio.Event()


_WITHIN: Final[ContextVar[_CallWithin | None]] = ContextVar("mqflow_put", default=None)


def place_of_put() -> tuple[int, bool]:
    """Return the number of calls whose publish middleware runs, and makes this call; also whether one has a unit of work.

    Such a call can wait for this call in any task, and its commit waits for its middleware. So calls of different depths must
    not share a session.
    """
    outer = _WITHIN.get()
    while outer is not None and outer.ready.is_set():
        outer = outer.outer
    return (0, False) if outer is None else (outer.depth + 1, outer.within_unit or outer.unit is not None)


class PutSession:
    """Puts messages outside of deliveries. Each call returns when its messages are committed."""

    def __init__(self, way: Way, around: Callable[[Send], Send] | None) -> None:
        """Take the session, and a function that puts middleware around a put; None if no middleware has `publish`."""
        self._way: Final = way
        self._around: Final = around
        self._waiting: Final = deque[PutCall]()
        #: True if a unit of work is open.
        self._busy = False
        self._turns = 0
        self._closed = False
        self._loop_caller: LoopCaller | None = None
        #: The task that makes units of work for waiting callers, with its cancel scope and the event of its end; None without
        #: such a task.
        self._writer: tuple[object, anyio.CancelScope, anyio.Event] | None = None
        #: A lock for calls that put a second message in the unit of work of the session's task.
        self._second_puts: Final = anyio.Lock()

    async def put(self, message: Outgoing) -> Put:
        """Put the message and commit it. Raises the `MQIError` of the put or of the commit."""
        if self._around is not None:
            [put] = await self._put_within(_CallWithin(), self._around, (message,))
            return put
        call = PutCall()
        call.add(message)
        await self._carry_out(call)
        return call.puts[0]

    async def put_many(self, messages: Sequence[Outgoing]) -> list[Put]:
        """Put the messages in one unit of work. Raises the error of the first put that is refused, or of the commit."""
        if not messages:
            return []
        if self._around is not None:
            return await self._put_within(_CallWithin(many=True), self._around, messages)
        call = PutCall(many=True)
        for message in messages:
            call.add(message)
        await self._carry_out(call)
        return call.puts

    async def release(self) -> None:
        """Close the connection, if no put is running. The next put makes a new connection."""
        if not self._busy:
            self._busy = True
            try:
                await self._way.reconnecting.let_go()
            finally:
                self._pass_on()

    async def close(self) -> None:
        """Close the session. Callers that wait get the error 2202. A commit that was sent is completed first."""
        self._closed = True
        if self._writer is not None:
            _, scope, over = self._writer
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await over.wait()
        await self._way.reconnecting.close()

    # -- these methods run in the tasks of the callers

    async def _carry_out(self, call: PutCall) -> None:
        if not self._busy:
            await self._begin_turn()
        if self._busy:
            self._enter_line(call)
            await self._end_of(call)  # until the task of the session has put and committed the messages of the call
        else:
            await self._own_unit(call)
        if call.error is not None:
            raise call.error

    async def _own_unit(self, call: PutCall) -> None:
        self._busy = True
        try:
            unit = UnitOfPuts(self._way, (call,))
            await unit.put()
            await unit.finish()
        finally:
            self._pass_on()

    async def _begin_turn(self) -> None:
        """Raise if the caller is cancelled or the session is closed. Sometimes let other tasks run.

        A put in memory never waits, so without this no other task would run.
        """
        self._turns += 1
        if self._turns % _TURNS_BEFORE_YIELD:
            await checkpoint_if_cancelled()
        else:
            await checkpoint()
        if self._closed:
            raise closed()

    def _enter_line(self, call: PutCall) -> None:
        if self._closed:
            raise closed()
        if self._loop_caller is None:
            self._loop_caller = LoopCaller()
        call.over, call.stage = OneShot(self._loop_caller), Stage.WAITING
        self._waiting.append(call)

    async def _end_of(self, call: PutCall) -> None:
        assert call.over is not None  # noqa: S101 - `_enter_line` made it
        try:
            try:
                await call.over.wait()
            except anyio.get_cancelled_exc_class():
                if not call.is_sent or not await is_by_scope():
                    raise
                with anyio.CancelScope(shield=call.is_sent) as call.scope:
                    await call.over.wait()
        except BaseException:
            call.withdrawn = True
            if call.is_sent and call.error is None:  # `Task.cancel` of asyncio ignores the shield
                in_doubt(self._way.broadcast, call.messages[0][0].queue, call.message_ids, Reason.CALL_INTERRUPTED)
            raise
        finally:
            call.scope = None

    async def _put_within(self, call: _CallWithin, around: Callable[[Send], Send], messages: Sequence[Outgoing]) -> list[Put]:
        """Put the messages through the middleware. They are committed when the middleware has returned."""
        before, send = _WITHIN.set(call), around(partial(self._put_next, call))
        try:
            puts = [await send(message) for message in messages]
        except BaseException:
            call.withdrawn = True
            with anyio.CancelScope(shield=True):
                await self._leave(call)
            raise
        finally:
            _WITHIN.reset(before)
        await self._leave(call)
        if call.error is not None:
            raise call.error
        return puts

    async def _put_next(self, call: _CallWithin, message: Outgoing) -> Put:
        """Put the message in the unit of work of the call, called by its middleware. Raises the error of the put."""
        call.add(message)
        if call.unit is None and not self._busy:
            await self._begin_turn()
        if call.unit is not None:
            async with self._second_puts:
                await call.unit.put()
        elif not self._busy:
            self._busy = call.own = True
            call.unit = UnitOfPuts(self._way, (call,))
            await call.unit.put()
        else:
            await self._join(call)
        error, call.error = call.error, None
        if error is not None:
            del call.messages[len(call.puts) :]
            raise error
        return call.puts[-1]

    async def _leave(self, call: _CallWithin) -> None:
        """End the call, because its middleware has ended."""
        call.ready.set()
        if call.own:
            try:
                if call.unit is not None:
                    await call.unit.finish()
            finally:
                self._pass_on()
        elif call.unit is not None and not call.withdrawn:
            await self._end_of(call)

    async def _join(self, call: _CallWithin) -> None:
        """Wait until the put of the call is in a unit of work of several callers, or is refused."""
        call.joined = anyio.Event()
        self._enter_line(call)
        await call.joined.wait()

    # -- this task belongs to the session

    def _pass_on(self) -> None:
        """End the turn of this caller. If other callers wait, start the task that makes units of work for them."""
        if not self._waiting:
            self._busy = False
            return
        scope, over = anyio.CancelScope(shield=True), anyio.Event()
        self._writer = start_task(partial(self._write, scope, over)), scope, over

    async def _write(self, scope: anyio.CancelScope, over: anyio.Event) -> None:
        try:
            with scope:
                while calls := self._take():
                    await self._shared_unit(calls)
                    await checkpoint()  # so that callers that put again immediately share the next commit
        finally:
            self._writer = None
            self._busy = False
            for call in self._waiting:  # only if the session was closed
                call.error = closed()
                _end(call)
            self._waiting.clear()
            over.set()

    def _take(self) -> Sequence[PutCall]:
        return [self._waiting.popleft() for _ in range(calls_of_unit(call.size for call in self._waiting))]

    async def _shared_unit(self, calls: Sequence[PutCall]) -> None:
        unit = UnitOfPuts(self._way, calls)
        try:
            await unit.put()
            within = [call for call in unit.calls if isinstance(call, _CallWithin)]
            for call in within:
                call.unit = unit
                call.joined.set()
            for call in within:
                await call.ready.wait()
            await unit.finish()
        except Exception as error:  # noqa: BLE001 - passed to the callers, whose tasks raise it
            unit.fail(error)
        except BaseException:
            unit.fail(closed())
            raise
        finally:
            self._waiting.extendleft(reversed(unit.left_over))
            for each in calls:
                if each not in unit.left_over:
                    _end(each)


def _end(call: PutCall) -> None:
    call.enter(Stage.OVER)
    if isinstance(call, _CallWithin):
        call.joined.set()


def closed() -> MQIError:
    """Return the error of a put after the sessions of the application are closed."""
    detail = "The application stops, so nothing was put"
    return error_for(Reason.CONNECTION_QUIESCING, "MQPUT", detail=detail)
