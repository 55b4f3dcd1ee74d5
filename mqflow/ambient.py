"""The seams to the world: clock, chance and threads, passed in so that everything above can be simulated.

The only module (with the storage) that may read a clock, draw a random number or start a thread; a lint rule keeps it so.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

__all__ = ("SYSTEM_CLOCK", "SYSTEM_RANDOM", "THREADS", "Clock", "Random", "Runner", "Running")


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


class Runner(Protocol):
    """Starts threads."""

    def start(self, target: Callable[[], None], name: str) -> Running:
        """Run `target` beside everything else; a daemon, so a stuck one never keeps the process alive."""
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
    def start(self, target: Callable[[], None], name: str) -> Running:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread


SYSTEM_CLOCK: Clock = _SystemClock()
SYSTEM_RANDOM: Random = random.SystemRandom()
THREADS: Runner = _Threads()
