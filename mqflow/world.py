"""The seams to the world: clock, chance and threads, passed in so that everything above can be simulated.

The only module (with the storage) that may read a clock, draw a random number or start a thread; a lint rule keeps it so.
"""

import os
import queue
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
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
    "Random",
    "Runner",
    "Running",
    "World",
    "give_way",
)

T = TypeVar("T")


class Clock(Protocol):
    """What time it is. Waiting is not here: the event loop waits, and a virtual loop waits in virtual time."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def monotonic_epoch(self) -> bytes:
        """Return the name, 16 bytes, of the moment `monotonic` counts from: who has the same name may compare."""
        ...


class Random(Protocol):
    """Chance."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class Running(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it ends."""
        ...

    def is_alive(self) -> bool:
        """Whether it still runs."""
        ...


class Event(Protocol):
    """Something that happens once, until it is cleared; as `threading.Event`."""

    def set(self) -> None:
        """Let it have happened, and wake who waits."""
        ...

    def clear(self) -> None:
        """Let it not have happened."""
        ...

    def is_set(self) -> bool:
        """Whether it has happened."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has happened, or the time is over; return whether it has."""
        ...


class Lock(Protocol):
    """One at a time; as `threading.Lock`, which any thread may release."""

    def acquire(self, blocking: bool = True, /) -> bool:  # noqa: FBT001, FBT002 - as `threading.Lock`
        """Take it, waiting for it if `blocking`; return whether it was taken."""
        ...

    def release(self) -> None:
        """Let another have it."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


class Mailbox(Protocol[T]):
    """First in, first out, for any thread; as `queue.SimpleQueue`."""

    def put(self, item: T) -> None:
        """Put it in; never waits."""
        ...

    def get(self) -> T:
        """Take the next out, waiting for one."""
        ...

    def empty(self) -> bool:
        """Whether there is none now."""
        ...

    def qsize(self) -> int:
        """How many there are now."""
        ...


class Runner(Protocol):
    """Starts threads, and makes what they wait with."""

    def start(self, target: Callable[[], None], name: str) -> Running:
        """Run `target` beside everything else; a daemon, so a stuck one never keeps the process alive. Does not wait."""
        ...

    def event(self) -> Event:
        """Return an event that its threads can wait for."""
        ...

    def lock(self) -> Lock:
        """Return a lock that its threads can wait for."""
        ...

    def mailbox(self) -> Mailbox[Any]:
        """Return a mailbox that its threads can wait at."""
        ...


class _SystemClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def monotonic_epoch(self) -> bytes:
        return _start_of_this_machine()


@cache
def _start_of_this_machine() -> bytes:
    """Linux names each of its starts, and has one monotonic clock for all processes; elsewhere each has its own."""
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
    """Let whoever else wants the processor have it first; other threads of this process meanwhile too."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


SYSTEM_CLOCK: Clock = _SystemClock()
SYSTEM_RANDOM: Random = random.SystemRandom()
THREADS: Runner = _Threads()


class World(Struct, frozen=True):
    """What a part of the program uses of the world outside: the time, random numbers, and threads."""

    clock: Clock = SYSTEM_CLOCK
    random: Random = SYSTEM_RANDOM
    runner: Runner = THREADS


SYSTEM_WORLD: Final = World()
