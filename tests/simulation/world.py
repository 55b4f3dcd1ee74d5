"""A simulated world in one thread: processes, their threads and their clock. One seed decides every order.

The code under test is the real code. Its threads are greenlets, which switch only where `mqflow.world` lets them wait. Time
advances when no thread can continue. This module knows no queue manager and no wire.
"""

import hashlib
import heapq
import math
import random
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from mqflow.testing.virtual_clock import EPOCH_S, DeadlockError
from mqflow.world import MailboxEmptyError
from mqflow.world import World as OutsideWorld
from tests.finding import FindingError

__all__ = ("Chance", "Clock", "Process", "Seeded", "SpinningError", "Thread", "Waiters", "World")

T = TypeVar("T")

_MOMENT: Final = struct.Struct("d")
_STEPS_A_SECOND_MAX: Final = 20_000
"""The most steps within one virtual second; more steps are a busy loop (I8)."""


class SpinningError(FindingError):
    """A thread is in a busy loop while the time does not advance."""


class Chance(Protocol):
    """The choices that the code does not make: the next thread, and all durations."""

    def choose(self, count: int) -> int:
        """Return a number below `count`; 0 is the choice of an undisturbed machine."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class Seeded:
    """Chance from a seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def choose(self, count: int) -> int:
        return int(self._dice.random() * count)

    def random(self) -> float:
        return self._dice.random()


class Clock:
    """The time of the world, as `mqflow.world.Clock`."""

    def __init__(self) -> None:
        self.now = 0.0

    def wall(self) -> float:
        return EPOCH_S + self.now

    def monotonic(self) -> float:
        return self.now

    def monotonic_epoch(self) -> bytes:
        return b"a virtual start "


class _Waiter:
    """One wait of one thread, for one of several objects or for a time."""

    __slots__ = ("over", "thread", "woken")

    def __init__(self, thread: "Thread | None") -> None:
        self.thread = thread
        self.woken = False
        self.over = False


Waiters = deque[_Waiter]
"""The threads that wait for one object, in the order of their arrival."""


class Thread:
    """A thread of a process; offers `mqflow.world.Running`."""

    def __init__(self, process: "Process", target: Callable[[], None], name: str) -> None:
        self.process: Final = process
        self.name: Final = name
        self._target = target
        self._joining: Waiters = deque()
        self.done = False
        self.greenlet: Final = greenlet(self._run, parent=process.world.main)

    def join(self, timeout: float | None = None) -> None:
        if not self.done:
            self.process.world.wait((self._joining,), timeout)

    def is_alive(self) -> bool:
        return not self.done

    def _run(self) -> None:
        world = self.process.world
        try:
            self._target()
        except GreenletExit:
            return
        except BaseException as error:  # noqa: BLE001 - every exception fails the run
            world.failures.append(error)
        self.done = True
        self.process.threads.pop(self, None)
        world.wake(self._joining)


class World:
    """Runs all threads in one order."""

    def __init__(self, chance: Chance) -> None:
        self.clock: Final = Clock()
        self.chance: Final = chance
        self.main: Final = getcurrent()
        self.failures: list[BaseException] = []
        self.steps = 0
        #: The number of stopped processes now.
        self.stopped = 0
        self._ready: list[Thread] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._current: Thread | None = None
        self._trace = hashlib.blake2b(digest_size=16)
        self._all: list[Thread] = []
        self._closing = False
        self._steps_at = (0.0, 0)

    @property
    def trace(self) -> str:
        """The digest of the run so far; two equal runs have equal digests."""
        return self._trace.hexdigest()

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.now

    def note(self, *what: object) -> None:
        """Add an event to the trace."""
        self._trace.update(repr((self.clock.now, what)).encode())

    def arrived(self, data: bytes) -> None:
        """Add data of a wire to the trace."""
        self._trace.update(_MOMENT.pack(self.clock.now))
        self._trace.update(data)

    # -- waiting

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Run the action at that moment."""
        heapq.heappush(self._timers, (when, next(self._numbers), act))

    def wait(self, queues: Sequence[Waiters], timeout_s: float | None = None) -> bool:
        """Wait until one of the queues is woken, or the time is over; return whether it was woken."""
        if self._closing:
            raise GreenletExit
        thread = self._current
        waiter = _Waiter(thread)
        for queue in queues:
            queue.append(waiter)
        if timeout_s is not None and timeout_s != math.inf:
            self.at(self.now + max(timeout_s, 0.0), lambda: self._expire(waiter))
        if thread is None:
            self.turn(math.inf, lambda: waiter.over)
        else:
            self.main.switch()
        if self._closing:
            raise GreenletExit
        if not waiter.woken:
            for queue in queues:
                if waiter in queue:
                    queue.remove(waiter)
        return waiter.woken

    def sleep(self, seconds: float) -> None:
        """Let this thread pause for this time; with 0, other threads can still run first."""
        self.wait((), seconds)

    def wake(self, queue: Waiters, most: int | None = None) -> None:
        """Wake the waiting threads; with `most`, only the first `most` threads."""
        left = len(queue) if most is None else most
        while queue and left:
            waiter = queue.popleft()
            if waiter.over or (waiter.thread is not None and not waiter.thread.process.alive):
                continue
            waiter.woken = True
            self._over(waiter)
            left -= 1

    def vanish(self) -> None:
        """End the calling thread, as a kill does: no more code of it runs, not even its clean-up."""
        if self._current is not None:
            self.main.switch()
            raise GreenletExit

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.over and (waiter.thread is None or waiter.thread.process.alive):
            self._over(waiter)

    def _over(self, waiter: _Waiter) -> None:
        waiter.over = True
        if waiter.thread is not None:
            self._ready.append(waiter.thread)

    # -- running the threads

    def started(self, thread: Thread) -> None:
        """Let a new thread run when its turn comes."""
        self._all.append(thread)
        self._ready.append(thread)

    def turn(self, deadline: float, over: Callable[[], bool]) -> None:
        """Run the world until `over` is true or until `deadline`. Raises `DeadlockError` if neither can ever happen."""
        while not over():
            if self._step():
                continue
            when = self._timers[0][0] if self._timers else math.inf
            if deadline <= when:
                if deadline == math.inf:
                    raise DeadlockError(self._who_waits())
                self._move_to(deadline)
                return
            self._move_to(when)
            _, _, act = heapq.heappop(self._timers)
            act()

    def beside(self) -> None:
        """Let one thread continue, next to an event loop that may be busy."""
        if self._ready and self.chance.choose(2):
            self._step()

    def close(self) -> None:
        """End all threads that still run."""
        self._closing = True
        self._timers.clear()
        for thread in self._all:
            if thread.greenlet and not thread.greenlet.dead:
                thread.greenlet.throw(GreenletExit)

    def _move_to(self, when: float) -> None:
        self.clock.now = max(self.clock.now, when)

    def _step(self) -> bool:
        """Let one thread continue; return False if no thread can continue."""
        ready = self._ready
        able = [thread for thread in ready if not thread.process.stopped] if self.stopped else ready
        if not able:
            return False
        if len(ready) == 1:
            thread = ready.pop()
        else:
            thread = able[self.chance.choose(len(able)) if len(able) > 1 else 0]
            ready.remove(thread)
        self._count()
        self._current = thread
        thread.greenlet.switch()
        self._current = None
        if self.failures:
            raise self.failures[0]
        return True

    def _count(self) -> None:
        self.steps += 1
        since, steps = self._steps_at
        if self.now - since >= 1.0:
            self._steps_at = (self.now, self.steps)
        elif self.steps - steps > _STEPS_A_SECOND_MAX:
            raise SpinningError(f"{_STEPS_A_SECOND_MAX} steps within a virtual second, at {self.now:g} s")

    def forget(self, process: "Process") -> None:
        """Let no thread of this process continue."""
        self._ready = [thread for thread in self._ready if thread.process is not process]

    def _who_waits(self) -> str:
        waiting = sorted(f"{thread.process.name}: {thread.name}" for thread in self._all if not thread.done)
        return f"After {self.now:g} virtual seconds nothing can happen any more; there are: {', '.join(waiting) or 'nobody'}"

    @property
    def current(self) -> Thread | None:
        """The thread that runs now; None for the event loop, and for a test."""
        return self._current


class Process:
    """Threads that live and die together; offers `mqflow.world.Runner`."""

    def __init__(self, world: World, name: str) -> None:
        self.world: Final = world
        self.name: Final = name
        #: The clock and the threads of the process, as mqflow receives them.
        self.outside: Final = OutsideWorld(world.clock, runner=self)
        self.alive = True
        self.stopped = False
        self.threads: dict[Thread, None] = {}
        #: The actions of the kernel at the end of the process, however it ends.
        self.at_death: list[Callable[[], None]] = []

    def start(self, target: Callable[[], None], name: str) -> Thread:
        thread = Thread(self, target, name)
        if self.alive:
            self.threads[thread] = None
            self.world.started(thread)
        return thread

    def event(self) -> "_Event":
        return _Event(self.world)

    def lock(self) -> "_Lock":
        return _Lock(self.world)

    def mailbox(self) -> "_Mailbox":
        return _Mailbox(self.world)

    def kill(self) -> None:
        """End the process now, like kill -9. If the caller is a thread of the process, the caller ends too."""
        if not self.alive:
            return
        self.go_on()
        self.alive = False
        self.world.note("killed", self.name)
        self.world.forget(self)
        for act in self.at_death:
            act()
        current = self.world.current
        if current is not None and current.process is self:
            self.world.vanish()

    def stop(self) -> None:
        """Stop all threads of the process, like SIGSTOP; its open files stay open."""
        if self.stopped:
            return
        self.world.note("stopped", self.name)
        self.stopped = True
        self.world.stopped += 1

    def go_on(self) -> None:
        """Let a stopped process continue, like SIGCONT."""
        if self.stopped:
            self.world.note("goes on", self.name)
            self.stopped = False
            self.world.stopped -= 1

    def here(self) -> None:
        """Let a thread that was stopped wait until the process continues."""
        while self.stopped and self.world.current is not None and self.world.current.process is self:
            self.world.sleep(0.0)


class _Event:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters: Waiters = deque()
        self._is_set = False

    def set(self) -> None:
        self._is_set = True
        self._world.wake(self._waiters)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._world.wait((self._waiters,), timeout)
        return self._is_set


class _Lock:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters: Waiters = deque()
        self._taken = False

    def acquire(self, blocking: bool = True, /) -> bool:  # noqa: FBT001, FBT002 - as `threading.Lock`
        while self._taken:
            if not blocking:
                return False
            self._world.wait((self._waiters,))
        self._taken = True
        return True

    def release(self) -> None:
        self._taken = False
        self._world.wake(self._waiters, 1)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        self.release()


class _Mailbox:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters: Waiters = deque()
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._world.wake(self._waiters, 1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: ARG002, FBT001, FBT002 - as SimpleQueue
        until_s = math.inf if timeout is None else self._world.now + timeout
        while not self._items:
            if self._world.now >= until_s:
                raise MailboxEmptyError
            self._world.wait((self._waiters,), None if timeout is None else until_s - self._world.now)
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)
