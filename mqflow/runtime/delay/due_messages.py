"""Finds the staged message that is due next, without getting it.

On the staging queue of the embedded queue manager, messages are in the order of their due times: the first message is due next.
On IBM MQ, messages are in the order of arrival. There each message is browsed once, because a mark hides it from the next
browse. A get and a backout end the mark, so a skipped message is remembered by its MsgId. The messages with the earliest due
times are remembered in a heap, up to a limit. This module moves no message.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol, TypeAlias

import anyio
from msgspec import Struct

from mqflow.mqi.errors import HeaderError
from mqflow.mqi.headers import delay as delay_header
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES, DelayHeader
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.policy.delivery_delay import ClockReading, due_in_ms
from mqflow.runtime.connection.loop_call import LoopCaller, OneShot
from mqflow.runtime.connection.session import Session
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.verbs import GetOptions, Got, ObjectHandle

__all__ = ("MarkedMessages", "OrderedMessages", "Seen", "StagedMessages", "open_staged")

_LOOK: Final = (
    GetOption.NO_SYNCPOINT | GetOption.ACCEPT_TRUNCATED_MSG | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
)
_BROWSE: Final = OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING
_POLL_MS: Final = 50.0
_SKIPPED_MAX: Final = 1_000
REMEMBERED_MAX: Final = 100_000
"""The largest number of messages that `MarkedMessages` remembers, about 30 MB. For more, it reads the queue again later."""


OnStaged: TypeAlias = Callable[[Callable[[], None]], Callable[[], None]]
"""The type of `StagingQueueManager.on_staged`."""


class Seen(Struct, frozen=True, gc=False):
    """A message that was seen on the staging queue."""

    message_id: bytes
    #: The MsgId of the message as sent, which is the CorrelId of the staged message.
    sent_message_id: bytes
    header: DelayHeader
    backout_count: int


class StagedMessages(Protocol):
    """The messages on the staging queue, by due time."""

    async def soonest(self, now: ClockReading) -> Seen | None:
        """Return the message that is due next, or None if the queue has no message."""
        ...

    async def wait(self, longest_ms: float) -> None:
        """Wait until a new browse can find another message, or until the time is over."""

    def forget(self, seen: Seen) -> None:
        """Record that this message is no longer on the queue."""

    def skip(self, seen: Seen) -> None:
        """Record that this message stays on the queue. From now on, `soonest` returns other messages."""

    def interrupt(self) -> None:
        """End a `wait`, if `Session.interrupt` does not end it."""


async def open_staged(session: Session, queue: str, on_staged: OnStaged | None = None) -> StagedMessages:
    """Return the messages of the staging queue, in the class that suits its order. `on_staged` reports new messages."""
    if queue == EMBEDDED_STAGING_QUEUE:
        return OrderedMessages(session, await session.call(session.open_objects.hold, queue, _BROWSE), on_staged)
    return MarkedMessages(session, queue, await session.call(session.connection.open, queue, _BROWSE))


class OrderedMessages:
    """A staging queue whose messages are in the order of their due times."""

    def __init__(self, session: Session, handle: ObjectHandle, on_staged: OnStaged | None = None) -> None:
        self._session = session
        self._handle = handle
        self._notified = None if on_staged is None else (on_staged, LoopCaller())
        self._waiting: OneShot | None = None
        self._interrupted = False
        self._found: bytes | None = None
        self._first = _look(GetOption.BROWSE_FIRST)
        self._next = _look(GetOption.BROWSE_NEXT)
        self._skipped: dict[bytes, None] = {}

    async def soonest(self, now: ClockReading) -> Seen | None:  # noqa: ARG002 - the queue is in order
        """Return the first message that is not skipped, because it is due next."""
        seen = await self._look_through()
        self._found = None if seen is None else seen.message_id
        return seen

    async def _look_through(self) -> Seen | None:
        get, options = self._session.connection.get, self._first
        while got := await self._session.call(get, self._handle, options):
            seen = _seen(got)
            if seen is not None and seen.message_id not in self._skipped:
                return seen
            options = self._next
        return None

    async def wait(self, longest_ms: float) -> None:
        """Wait like `StagedMessages.wait`. Without `on_staged`, return soon, because a new message can be due first."""
        if self._found is None:
            await self._session.exchange(None, self._handle, _look(GetOption.BROWSE_NEXT, wait_ms=longest_ms), most=1)
        elif self._notified is None:
            await anyio.sleep(min(longest_ms, _POLL_MS) / 1_000)
        else:
            await self._wait_notified(*self._notified, longest_ms)

    async def _wait_notified(self, on_staged: OnStaged, loop_caller: LoopCaller, longest_ms: float) -> None:
        self._waiting = OneShot(loop_caller)
        withdraw = on_staged(self._waiting.pass_on)
        try:
            seen = await self._look_through()
            if self._interrupted or seen is None or seen.message_id != self._found:  # it was staged before `on_staged`
                return
            with anyio.move_on_after(longest_ms / 1_000):
                await self._waiting.wait()
        finally:
            self._waiting = None
            withdraw()

    def interrupt(self) -> None:
        """End a `wait`."""
        self._interrupted = True
        if self._waiting is not None:
            self._waiting.pass_on()

    def forget(self, seen: Seen) -> None:
        """Do nothing, because every browse begins at the head of the queue."""

    def skip(self, seen: Seen) -> None:
        """Skip the message like `StagedMessages.skip`. If too many messages are skipped, the oldest one is tried again."""
        self._skipped[seen.message_id] = None
        if len(self._skipped) > _SKIPPED_MAX:
            del self._skipped[next(iter(self._skipped))]


class MarkedMessages:
    """A staging queue whose messages are in the order of their arrival."""

    def __init__(self, session: Session, queue: str, handle: ObjectHandle, *, remembered_max: int = REMEMBERED_MAX) -> None:
        self._session = session
        self._queue = queue
        self._handle = handle
        self._remembered_max = remembered_max
        #: For each message: the due time in monotonic milliseconds, a number that breaks ties, and the message.
        self._heap: list[tuple[int, int, Seen]] = []
        self._numbers = count()
        #: The earliest due time of the messages that are not remembered.
        self._beyond: int | None = None
        #: The skipped messages by MsgId, with their backout counts before the get that failed.
        self._skipped: dict[bytes, int] = {}

    async def soonest(self, now: ClockReading) -> Seen | None:
        """Browse the new messages, then return the message that is due next."""
        while got := await self._session.call(self._session.connection.get, self._handle, _NEW):
            self._remember(got, now)
        if self._beyond is not None and (not self._heap or self._heap[0][0] >= self._beyond):
            await self._start_again(now)
        return self._heap[0][2] if self._heap else None

    async def wait(self, longest_ms: float) -> None:
        """Wait like `StagedMessages.wait`. Every new message on the queue ends the wait."""
        options = _look(GetOption.BROWSE_FIRST | _UNMARKED, wait_ms=longest_ms)
        await self._session.exchange(None, self._handle, options, most=1)

    def forget(self, seen: Seen) -> None:
        """Forget the message if it is the next in the heap; otherwise do nothing."""
        if self._heap and self._heap[0][2] is seen:
            heapq.heappop(self._heap)

    def skip(self, seen: Seen) -> None:
        """Skip the message like `StagedMessages.skip`, also if another processor gets it and backs out."""
        self.forget(seen)
        self._skipped[seen.message_id] = seen.backout_count
        if len(self._skipped) > self._remembered_max:
            del self._skipped[next(iter(self._skipped))]

    def interrupt(self) -> None:
        """Do nothing, because `Session.interrupt` ends the wait."""

    def _remember(self, got: Got, now: ClockReading) -> None:
        seen = _seen(got)
        if seen is None or seen.backout_count > self._skipped.get(seen.message_id, seen.backout_count):
            return  # a message with a lower count was put again: a put sets the count to 0
        due = now.monotonic_ms + due_in_ms(seen.header, now)
        heapq.heappush(self._heap, (due, next(self._numbers), seen))
        if len(self._heap) > self._remembered_max:
            self._heap.sort()
            half = self._remembered_max // 2
            beyond = self._heap[half][0]
            self._beyond = beyond if self._beyond is None else min(beyond, self._beyond)
            del self._heap[half:]

    async def _start_again(self, now: ClockReading) -> None:
        """Read the whole queue again, because a message that is not remembered can be due next."""
        connection = self._session.connection
        await self._session.call(connection.close, self._handle)
        self._handle = await self._session.call(connection.open, self._queue, _BROWSE)
        self._heap.clear()
        self._beyond = None
        while got := await self._session.call(connection.get, self._handle, _NEW):
            self._remember(got, now)


_UNMARKED: Final = GetOption.UNMARKED_BROWSE_MSG


def _look(how: GetOption, *, wait_ms: float = 0) -> GetOptions:
    """Return the options of a browse that reads only the delay header of a message."""
    wait = GetOption.WAIT if wait_ms else GetOption.NO_SYNCPOINT
    return GetOptions(
        options=_LOOK | how | wait, wait_ms=max(1, round(wait_ms)) if wait_ms else 0, buffer_bytes_max=DELAY_HEADER_BYTES
    )


_NEW: Final = _look(GetOption.BROWSE_FIRST | _UNMARKED | GetOption.MARK_BROWSE_HANDLE)


def _seen(got: Got) -> Seen | None:
    """Return the message, or None if mqflow has not staged it. Such a message stays on the queue."""
    if got.descriptor.format != delay_header.FORMAT:
        return None
    try:
        header = delay_header.parse(got.body)
        return Seen(got.descriptor.message_id, got.descriptor.correlation_id, header, got.descriptor.backout_count)
    except HeaderError:
        return None
