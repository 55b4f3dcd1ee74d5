"""The interfaces to the clock, random numbers and threads. Other code receives them as arguments, so tests can simulate them.

Only this module, and the storage of the embedded queue manager, read a clock, draw a random number or start a thread. A lint
rule enforces this.
"""

import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

__all__ = (
    "SYSTEM_CLOCK",
    "SYSTEM_RANDOM",
    "SYSTEM_WORLD",
    "THREADS",
    "Clock",
    "Event",
    "Lock",
    "Mailbox",
    "MailboxEmptyError",
    "Random",
    "Runner",
    "Running",
    "World",
    "give_way",
    "own_thread",
    "wait_until_on",
    "wake",
    "woken_together",
)

T = TypeVar("T")

MailboxEmptyError: Final = queue.Empty
"""Raised by `Mailbox.get` if no item comes in time."""
_ON_NS: Final = 20_000_000
_LOOK_S: Final = 0.001
#: A thread that waits for Python's lock sleeps too, but not at two looks in a row: between two looks it can take the lock.
_TIMES: Final = 2


class Clock(Protocol):
    """Gives the time. A clock has no method to wait: only the event loop waits."""

    def wall(self) -> float:
        """Return the seconds since 1970-01-01 UTC; this number can jump."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment; this number never goes back."""
        ...

    def monotonic_epoch(self) -> bytes:
        """Return 16 bytes that name the moment 0 of `monotonic`. Times of clocks with equal bytes can be compared."""
        ...


class Random(Protocol):
    """Draws random numbers."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class Running(Protocol):
    """A started thread."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread ends."""

    def is_alive(self) -> bool:
        """Return whether the thread still runs."""
        ...


class Event(Protocol):
    """A flag that threads wait for, like `threading.Event`."""

    def set(self) -> None:
        """Set the flag, and wake all waiting threads."""

    def clear(self) -> None:
        """Clear the flag."""

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, or the timeout is over. Return whether the flag is set."""
        ...


class Lock(Protocol):
    """A lock like `threading.Lock`: one thread at a time holds the lock, and any thread may release it."""

    def acquire(self, blocking: bool = True, /) -> bool:  # noqa: FBT001, FBT002 - as `threading.Lock`
        """Take the lock; if `blocking` is true, wait for it. Return whether the lock was taken."""
        ...

    def release(self) -> None:
        """Release the lock."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


class Mailbox(Protocol[T]):
    """A first-in, first-out queue for threads, like `queue.SimpleQueue`."""

    def put(self, item: T) -> None:
        """Add an item without a wait."""

    def get(self, block: bool = True, timeout: float | None = None) -> T:  # noqa: FBT001, FBT002 - as `queue.SimpleQueue`
        """Remove and return the next item. If the mailbox is empty, wait for an item, at most `timeout` seconds.

        Raises `MailboxEmptyError` if no item comes in this time.
        """
        ...

    def empty(self) -> bool:
        """Return whether the mailbox is empty now."""
        ...

    def qsize(self) -> int:
        """Return the number of items now."""
        ...


class Runner(Protocol):
    """Starts threads, and makes the objects that threads wait for: events, locks and mailboxes."""

    def start(self, target: Callable[[], None], name: str) -> Running:
        """Run `target` in a thread, without a wait. The thread is a daemon, so that it never keeps the process alive."""
        ...

    def event(self) -> Event:
        """Return an event that the threads of this runner can wait for."""
        ...

    def lock(self) -> Lock:
        """Return a lock that the threads of this runner can wait for."""
        ...

    def mailbox(self) -> Mailbox[Any]:  # Any: the caller knows the type of its items
        """Return a mailbox that the threads of this runner can wait for."""
        ...


class _SystemClock:
    # The functions of `time` themselves, without a wrapper, because mqflow reads the clock several times for each message.
    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def monotonic_epoch(self) -> bytes:
        return _start_of_this_machine()


@cache
def _start_of_this_machine() -> bytes:
    """Return the boot identifier on Linux, where all processes share one monotonic clock. Elsewhere, return random bytes."""
    with suppress(OSError, ValueError):
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip().replace("-", ""))
    return random.SystemRandom().randbytes(16)


class _Threads:
    event = staticmethod(threading.Event)
    lock = staticmethod(threading.Lock)

    def mailbox(self) -> Mailbox[Any]:
        return queue.SimpleQueue()

    def start(self, target: Callable[[], None], name: str) -> Running:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread


def give_way() -> None:
    """Yield the processor to other processes, and to other threads of this process."""
    if hasattr(os, "sched_yield"):  # not on Windows
        os.sched_yield()


_HELD: Final[ContextVar[dict[Callable[[], None], None] | None]] = ContextVar("mqflow_held_wake_ups", default=None)


def wake(event_loop: Callable[[], None]) -> None:
    """Call the function, which wakes an event loop: now, or at the end of `woken_together` if this thread is inside."""
    held = _HELD.get()
    if held is None:
        event_loop()
    else:
        held[event_loop] = None


@contextmanager
def woken_together() -> Iterator[None]:
    """Wake each event loop at the end of the block, and only once.

    An event loop that is woken takes Python's lock from this thread. After each wake-up, this thread would wait for that lock.
    """
    held: dict[Callable[[], None], None] = {}
    before = _HELD.set(held)
    try:
        yield
    finally:
        _HELD.reset(before)
        for event_loop in held:
            event_loop()


def own_thread() -> tuple[int, int]:
    """Return the number of this thread, and the processor time that it has used, in nanoseconds."""
    return threading.get_native_id(), time.thread_time_ns()


def wait_until_on(thread: int, since_ns: int) -> None:
    """Wait until the thread sleeps, has ended, or has used 20 ms more of processor time than `since_ns`.

    A thread that waits for a processor does not sleep. Outside Linux, the function returns at its first look.
    """
    times_asleep = 0
    while times_asleep < _TIMES:
        time.sleep(_LOOK_S)
        try:
            used_ns = time.clock_gettime_ns(~thread << 3 | 6)  # clock_getres(2): the processor time of one thread
            state = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8").rpartition(") ")[2][:1]
        except OSError:
            return
        if used_ns - since_ns > _ON_NS:
            return
        times_asleep = 0 if state == "R" else times_asleep + 1


SYSTEM_CLOCK: Clock = _SystemClock()
SYSTEM_RANDOM: Random = random.SystemRandom()
THREADS: Runner = _Threads()


class World(Struct, frozen=True):
    """The outside world for one part of the program: the time, random numbers, and threads."""

    clock: Clock = SYSTEM_CLOCK
    random: Random = SYSTEM_RANDOM
    runner: Runner = THREADS


SYSTEM_WORLD: Final = World()
