"""The clock of virtual time, its random numbers, and the error of a run in which nothing can happen any more.

The event loops advance the clock: `virtual_time` for asyncio, `virtual_trio` for trio. This file imports neither of the two.
"""

import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CoroutineType, FrameType, GeneratorType
from typing import Any, Final

__all__ = (
    "EPOCH_S",
    "PATIENCE_S",
    "POLL_S",
    "DeadlockError",
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
_TURNS_FREE: Final = 1_000
_TURN_S: Final = 0.001
_AWAITS_MAX: Final = 1_000
_PLUMBING: Final = ("/asyncio/", "/anyio/", "/trio/", "/contextlib.py")


class DeadlockError(AssertionError):
    """Nothing can happen any more: every task waits, and no timer is set."""


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
        if seconds < 0:
            raise ValueError(
                f"Virtual time cannot run backwards, so it cannot advance by {seconds:g} s. jump_wall() moves the calendar"
            )
        self._now_s += seconds

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


def deadlock(clock: VirtualClock, waiting: Iterable[tuple[str, object]]) -> DeadlockError:
    """Return the error that names each waiting task, its coroutine and its position in the code."""
    lines = sorted(f"  {name}: {_where(coroutine)}" for name, coroutine in waiting)
    return DeadlockError(
        f"After {clock.monotonic():g} virtual seconds nothing can happen any more. No timer is set, and these tasks wait for "
        "each other, or for an unannounced thread (VirtualClock.held() announces one):\n" + "\n".join(lines)
    )


def waits_for_thread(coroutine: object) -> bool:
    """Return whether this coroutine waits for a function that anyio runs in a thread."""
    return any(frame.f_code.co_name == "run_sync_in_worker_thread" for frame in _frames(coroutine))


def _where(coroutine: object) -> str:
    """Return the position of a coroutine: the innermost frame outside the event loop's own code."""
    frames = tuple(_frames(coroutine))
    own = [frame for frame in frames if not any(part in frame.f_code.co_filename for part in _PLUMBING)]
    if not frames:
        return "not started"
    frame = own[-1] if own else frames[0]
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


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
