"""The clock of virtual time, its random numbers, and the error of a run in which nothing can happen any more.

The event loops advance the clock: `virtual_time` for asyncio, `virtual_trio` for trio. This file imports neither of the two.
"""

import math
import random
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, CoroutineType, FrameType, GeneratorType
from typing import Any, Final, TypeVar

import anyio

__all__ = (
    "EPOCH_S",
    "PATIENCE_S",
    "POLL_S",
    "DeadlockError",
    "Ending",
    "SeededRandom",
    "TurnCounter",
    "VirtualClock",
    "deadlock",
    "waits_for_thread",
)

EPOCH_S: Final = 1_767_225_600.0
"""The default start of virtual time: 2026-01-01 00:00:00 UTC."""
PATIENCE_S: Final = 0.25
"""The real seconds that a loop waits before it reports a deadlock: a thread that the loop does not know can still wake it."""
POLL_S: Final = 0.01
T = TypeVar("T")

_TURNS_FREE: Final = 1_000
_QUIET_JUMPS: Final = 1_000
"""After so many jumps of the clock without an event, a run in which only idle listeners have timers counts as a deadlock."""
_TURN_S: Final = 0.001
_AWAITS_MAX: Final = 1_000
# The second waits on Python 3.12 and later for at most 300 s.
_THREAD_WAITS: Final = frozenset({"run_sync_in_worker_thread", "shutdown_default_executor"})
_PLUMBING: Final = ("/asyncio/", "/anyio/", "/trio/", "/contextlib.py")
_MQFLOW: Final = f"{Path(__file__).parents[1]}/"


class DeadlockError(AssertionError):
    """Nothing can happen any more: every task waits, and no timer is set, except those of idle listeners."""


class VirtualClock:
    """A clock that moves only on request: an idle event loop of `run` moves the clock, and a test moves it with `advance`.

    `monotonic` starts at 0. `wall` is the same time on a calendar; `jump_wall` moves only `wall`.
    """

    def __init__(self, epoch_s: float = EPOCH_S, *, real_work_s_max: float = 5.0) -> None:
        self._epoch_s = epoch_s
        #: The longest time that virtual time stands still for work in real threads, in real seconds.
        self.real_work_s_max: Final = real_work_s_max
        self._now_s = 0.0
        self._lock = threading.Lock()
        self._holders = 0
        #: The functions in which an idle listener waits: their timers alone let nothing happen.
        self.idle_waits: frozenset[CodeType] = frozenset()
        #: The number of moves since the last event of the application.
        self.quiet_moves: int = 0

    def wall(self) -> float:
        """Return the seconds since 1970-01-01 UTC, in virtual time."""
        return self._epoch_s + self._now_s

    def monotonic(self) -> float:
        """Return the virtual seconds since the start of this clock."""
        return self._now_s

    def monotonic_epoch(self) -> bytes:
        """Return the identifier of this clock's start."""
        return b"a virtual start "

    def advance(self, seconds: float) -> None:
        """Move the clock forward; timers that are due by then fire when the loop runs next."""
        if not 0 <= seconds < math.inf:  # true for nan too
            raise ValueError(
                f"Virtual time runs forward, so it cannot advance by {seconds:g} s. jump_wall() moves the calendar"
            )
        self._now_s += seconds
        self.quiet_moves += 1

    @property
    def is_quiet(self) -> bool:
        """True if the clock has moved so often without an event that the next timer may be one of an idle listener."""
        return self.quiet_moves > _QUIET_JUMPS and bool(self.idle_waits)

    def idles(self, coroutine: object) -> bool:
        """Return whether this is the coroutine of an idle listener, and not of the test."""
        frames = tuple(_frames(coroutine))
        return any(frame.f_code in self.idle_waits for frame in frames) and not _of_user(frames)

    def jump_wall(self, seconds: float) -> None:
        """Set the calendar forward or back, as an operator or NTP does; timers do not change."""
        self._epoch_s += seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop virtual time inside the block, so that it does not jump ahead of work in real threads."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def hold(self) -> None:
        """Stop virtual time until `release` was called as often as `hold`. Any thread can call `hold` and `release`."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Undo one call of `hold`."""
        with self._lock:
            self._holders -= 1

    @property
    def is_held(self) -> bool:
        """True if `hold` was called more often than `release`."""
        return self._holders > 0


class SeededRandom:
    """Random numbers that repeat for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self.seed: Final = seed
        self._random: Final = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def __repr__(self) -> str:
        return f"SeededRandom({self.seed})"


class TurnCounter:
    """Advances the clock a little for each loop turn after the first thousand, so that a busy loop cannot stop virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._turns = 0

    def turn(self) -> None:
        """Count one turn in which a task ran."""
        self._turns += 1
        if self._turns > _TURNS_FREE:
            self._clock.advance(_TURN_S)

    def idle(self) -> None:
        """Reset the count, because no task can run."""
        self._turns = 0


class Ending:
    """Ends a run in which nothing can happen any more: it cancels the run, which then raises the error."""

    def __init__(self) -> None:
        self.error: DeadlockError | None = None
        self._scope: anyio.CancelScope | None = None

    async def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `main`. Raises the error of `end`."""
        with anyio.CancelScope() as self._scope:
            return await main()
        raise self.error or AssertionError("only a deadlock cancels this scope")

    def end(self, error: DeadlockError) -> None:
        """Cancel the run because of this error. Raises the error if the run was cancelled before, or has not begun."""
        if self.error is not None or self._scope is None:
            raise self.error or error
        self.error = error
        self._scope.cancel()


def deadlock(clock: VirtualClock, waiting: Iterable[tuple[str, object]]) -> DeadlockError:
    """Return the error that names each waiting task and its position in the code, those of the test and its handlers first."""
    found = sorted((*_where(coroutine), name) for name, coroutine in waiting)
    lines = [f"  {'the test' if name.endswith('Ending.run') else name}: {place}" for _, place, name in found]
    return DeadlockError(
        f"After {clock.monotonic():g} virtual seconds nothing can happen any more. Only idle listeners have timers, and these "
        "tasks wait for each other, or for an unannounced thread (VirtualClock.held() announces one):\n" + "\n".join(lines)
    )


def waits_for_thread(coroutine: object) -> bool:
    """Return whether this coroutine waits for a function that anyio runs in a thread, or for the end of asyncio's threads."""
    return any(frame.f_code.co_name in _THREAD_WAITS for frame in _frames(coroutine))


def _where(coroutine: object) -> tuple[bool, str]:
    """Return the position of a coroutine: its innermost frame in the test or the application.

    If it has no such frame, return true, and its innermost frame outside the event loop's own code.
    """
    frames = tuple(_frames(coroutine))
    own = [frame for frame in frames if not _is_plumbing(frame)]
    users = _of_user(frames)
    if not frames:
        return True, "not started"
    frame = (users or own or frames[:1])[-1]
    return not users, f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _is_plumbing(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in _PLUMBING)


def _of_user(frames: Iterable[FrameType]) -> list[FrameType]:
    """Return the frames that belong neither to mqflow nor to the event loop."""
    return [each for each in frames if not each.f_code.co_filename.startswith(_MQFLOW) and not _is_plumbing(each)]


def _frames(coroutine: object) -> Iterator[FrameType]:
    """Yield the frames of a chain of awaits, outermost first."""
    for _ in range(_AWAITS_MAX):
        match coroutine:  # the loop asks at every idle turn, so no attribute is looked up in vain
            case CoroutineType():
                frame, coroutine = coroutine.cr_frame, coroutine.cr_await
            case GeneratorType():
                frame, coroutine = coroutine.gi_frame, coroutine.gi_yieldfrom
            case _:
                frame, coroutine = _first(coroutine, "cr_frame", "ag_frame"), _first(coroutine, "cr_await", "ag_await")
        if frame is not None:
            yield frame
        if coroutine is None:
            return


def _first(holder: object, *names: str) -> Any:
    # getattr, because asynchronous generators and other awaitables name these attributes differently.
    return next((found for name in names if (found := getattr(holder, name, None)) is not None), None)
