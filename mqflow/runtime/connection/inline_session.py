"""A session on a queue manager in this process. It calls the verbs directly, without a thread.

Only a wait for a message and a durable commit suspend the caller. The session makes no decision about messages.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final, ParamSpec, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from mqflow.many_verbs import disconnect_without_commit, take_unit, without_wait
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot
from mqflow.runtime.connection.open_objects import OpenObjects
from mqflow.runtime.connection.session_limits import arrivals_within, settlement_reply
from mqflow.verbs import Connection, Exchange, GetOptions, Got, InlineConnection, ObjectDescriptor, ObjectHandle

__all__ = ("InlineSession",)

P = ParamSpec("P")
T = TypeVar("T")

_TURNS_BEFORE_YIELD: Final = 64


class InlineSession:
    """Runs each verb on the thread of its caller, because the verbs only change memory and take little time."""

    generation: int
    #: The largest number of commits of a worker that are not answered yet. If the process ends, the messages of these commits
    #: can come again, although their handlers have completed.
    unanswered_max: Final = 8

    def __init__(self, connection: InlineConnection, open_objects: Callable[[Connection], OpenObjects] = OpenObjects) -> None:
        self.connection: Final = connection
        self.open_objects: Final = open_objects(connection)
        self.abandoned = False
        self.lingering: Sequence[Got] = ()
        self._loop_caller = LoopCaller()
        self._waiting: OneShot | None = None
        self._answer: OneShot | None = None
        self._interrupted = False
        self._turns = 0
        self._options = self._at_once = GetOptions()

    async def call(self, verb: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call the verb directly, and return its result."""
        return verb(*args, **options)

    async def output(self, target: ObjectDescriptor | str) -> ObjectHandle:
        """Return a handle of the queue or topic, open for output. `OpenObjects.output` describes the handle and the errors."""
        return self.open_objects.output(target)

    async def exchange(
        self, settlement: Settlement | None, handle: ObjectHandle, options: GetOptions, *, most: int, linger_ms: int = 0
    ) -> Exchange:
        """Settle and get like `Session.exchange`. Every `_TURNS_BEFORE_YIELD` calls, let other tasks run."""
        if settlement is not None:
            try:
                await self.settle(settlement)
            except MQIError as error:
                return Exchange(settle_error=error)
        self._turns += 1
        if settlement is not None and (linger_ms or self._turns >= _TURNS_BEFORE_YIELD):
            return Exchange()  # no get now: a caller that is cancelled in a get does not learn of the settlement
        if self._turns >= _TURNS_BEFORE_YIELD:
            self._turns = 0
            await checkpoint()
        try:
            return Exchange(unit=await self._take(handle, options, most, linger_ms, wait=settlement is None))
        except MQIError as error:
            return Exchange(get_error=error)

    def get_at_once(self, handle: ObjectHandle, options: GetOptions, most: int) -> Sequence[Got]:
        """Return the messages of the next unit of work, up to `most`, without a wait; empty if no message is on the queue.

        Every `_TURNS_BEFORE_YIELD` calls the result is empty: the caller then calls `exchange`, which lets other tasks run.
        Raises the `MQIError` of a refused get.
        """
        self._turns += 1
        if self._turns >= _TURNS_BEFORE_YIELD:
            return ()
        if options is not self._options:  # a listener passes the same options for every get; convert them once
            self._options, self._at_once = options, without_wait(options)
        first = self.connection.get(handle, self._at_once)
        if first is None:
            return ()
        return (first,) if most == 1 else self._fill([first], handle, self._at_once, most)

    def commit_behind(self, done: Callable[[MQIError | None], None]) -> bool | None:
        """Start to commit the open unit of work. The next unit can begin before the answer. Return whether the commit is done.

        If the result is False, `done` gets the answer later, on the event loop. If the unit of work does more than remove
        messages, nothing happens and the result is None: only `settle` can commit it. Raises the `MQIError` of an immediate
        refusal.
        """
        if not self.connection.only_removes:
            return None
        return self.connection.begin_commit(lambda error: self._loop_caller(lambda: done(error)), behind=True)

    async def _take(self, handle: ObjectHandle, options: GetOptions, most: int, linger_ms: int, *, wait: bool) -> Sequence[Got]:
        if options is not self._options:  # as in `get_at_once`
            self._options, self._at_once = options, without_wait(options)
        at_once = self._at_once
        first = self.connection.get(handle, at_once)
        if first is None and wait and options.options & GetOption.WAIT:
            first = await self._wait(handle, at_once, options.wait_ms)
        if first is None:
            return ()
        if most == 1:
            return (first,)
        unit = self._fill([first], handle, at_once, most)
        if not linger_ms:
            return unit
        self.lingering = unit
        arrivals = arrivals_within(unit, most, linger_ms, lambda left_ms: self._wait(handle, at_once, left_ms))
        async with aclosing(arrivals):
            async for more in arrivals:
                unit.append(more)
                take_unit(self.connection, handle, unit, at_once, most)
        self.lingering = ()
        return unit

    def _fill(self, unit: list[Got], handle: ObjectHandle, at_once: GetOptions, most: int) -> list[Got]:
        self.lingering = unit
        take_unit(self.connection, handle, unit, at_once, most)
        self.lingering = ()
        return unit

    async def _wait(self, handle: ObjectHandle, at_once: GetOptions, wait_ms: int) -> Got | None:
        """Return the next message, or None if the wait is over or was interrupted."""
        with anyio.move_on_after(wait_ms / 1_000 if wait_ms >= 0 else None):
            while not self._interrupted:
                self._waiting = OneShot(self._loop_caller)
                withdraw = self.connection.on_arrival(handle, at_once, self._waiting.pass_on)
                try:
                    if withdraw is not None:
                        await self._waiting.wait()
                    # Get before the withdrawal. If a waiter that was notified withdraws without a get, another waiter is woken.
                    got = self.connection.get(handle, at_once)
                finally:
                    self._waiting = None
                    if withdraw is not None:
                        withdraw()
                if got is not None:
                    return got
        return None

    async def settle(self, settlement: Settlement) -> None:
        """End the unit of work. A durable commit waits for the disk, shielded from cancellation and with a time limit."""
        if settlement is Settlement.BACKOUT:
            self.connection.backout()
            return
        answer = self._answer or OneShot(self._loop_caller)
        self._answer = None
        if self.connection.begin_commit(answer.pass_on):
            self._answer = answer  # this object was not used, so the next commit can use it
            return
        await settlement_reply(answer, settlement, self.connection.queue_manager_name)

    def interrupt(self) -> None:
        """End the wait of an `exchange`."""
        self._interrupted = True
        if self._waiting is not None:
            self._waiting.pass_on()

    async def close(self) -> None:
        """Back out the open unit of work, then disconnect."""
        disconnect_without_commit(self.connection)
