"""Time that costs nothing: an event loop that jumps to its next timer as soon as nobody has anything to do.

Thirty seconds of reconnecting take a millisecond, and the same run happens the same way each time. Works for asyncio (a loop
of its own) and for trio (a clock of its own), behind one `run`. A run in which nothing can happen any more ends with a
`DeadlockError` that names who waits for what, instead of hanging. Knows no queue manager: its only ties are
the seams of `mqflow.world`.
"""

import asyncio
import random
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final, Literal, TypeVar, assert_never

import anyio

from mqflow.world import SYSTEM_CLOCK, THREADS, Event, Lock, Mailbox, Running

__all__ = (
    "PATIENCE_S",
    "POLL_S",
    "Backend",
    "DeadlockError",
    "InlineRunner",
    "SeededRandom",
    "TurnCounter",
    "VirtualClock",
    "deadlock",
    "run",
    "waits_for_thread",
)

T = TypeVar("T")

Backend = Literal["asyncio", "trio"]

EPOCH_S: Final = 1_767_225_600.0
"""Where virtual time starts unless told otherwise: 2026-01-01 00:00:00 UTC."""
PATIENCE_S: Final = 0.25
"""How long, in real seconds, to listen for a thread nobody announced before calling it a deadlock."""
POLL_S: Final = 0.01
_TURNS_FREE: Final = 1_000
_TURN_S: Final = 0.001
_AWAITS_MAX: Final = 1_000


class DeadlockError(AssertionError):
    """Nothing can happen any more: every task waits, and no timer is set that would wake one."""


class VirtualClock:
    """A clock that stands still until somebody moves it: the event loop of `run` while it idles, or a test with `advance`.

    `monotonic` starts at 0; `wall` is the same time on a calendar, and can be moved on its own.
    """

    def __init__(self, epoch_s: float = EPOCH_S, *, real_work_s_max: float = 5.0) -> None:
        self._epoch_s = epoch_s
        #: How long time stands still for work in real threads, in real seconds; then it runs on without them.
        self.real_work_s_max: Final = real_work_s_max
        self._now_s = 0.0
        self._lock = threading.Lock()
        self._holders = 0

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC, in virtual time."""
        return self._epoch_s + self._now_s

    def monotonic(self) -> float:
        """Virtual seconds since the start."""
        return self._now_s

    def monotonic_epoch(self) -> bytes:
        """The name of this clock's start."""
        return b"a virtual start "

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass; timers that are due by then fire when the loop runs next."""
        if seconds < 0:
            raise ValueError(
                f"Time does not run backwards, so it cannot advance by {seconds:g} s; jump_wall() moves the calendar"
            )
        self._now_s += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the calendar forward or back, as an operator or NTP does; no timer notices."""
        self._epoch_s += seconds

    @contextmanager
    def held(self) -> Iterator[None]:
        """Time stands still inside: for work in real threads, which a jump would overtake."""
        self.hold()
        try:
            yield
        finally:
            self.release()

    def hold(self) -> None:
        """Stop time until as many `release` calls were made, from whichever thread."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Undo one `hold`."""
        with self._lock:
            self._holders -= 1

    @property
    def is_held(self) -> bool:
        """Whether announced work is under way."""
        return self._holders > 0


class SeededRandom:
    """Chance that repeats itself: the same seed, the same numbers."""

    def __init__(self, seed: int = 0) -> None:
        self.seed: Final = seed
        self._random: Final = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def __repr__(self) -> str:
        return f"SeededRandom({self.seed})"


class _Finished:
    """A thread that is over before anybody can ask."""

    def join(self, timeout: float | None = None) -> None:  # noqa: ARG002 - nothing to wait for
        return

    def is_alive(self) -> bool:
        return False


class InlineRunner:
    """Runs a "thread" where it was started, to its end: no second thread, so no chance. For work that ends by itself."""

    def start(self, target: Callable[[], None], name: str) -> Running:  # noqa: ARG002 - no thread to give the name to
        """Run it now; return what is over."""
        target()
        return _Finished()

    def event(self) -> Event:
        """Return an event; nobody waits for it here."""
        return THREADS.event()

    def lock(self) -> Lock:
        """Return a lock; nobody waits for it here."""
        return THREADS.lock()

    def mailbox(self) -> Mailbox[Any]:
        """Return a mailbox; nobody waits at it here."""
        return THREADS.mailbox()


def run(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    backend: Backend = "asyncio",
    clock: VirtualClock | None = None,
    seed: int = 0,
) -> T:
    """Return what `main` returns, run on a new event loop whose time is the clock's.

    On trio, `seed` decides which of several runnable tasks runs first; asyncio's order is always that of arrival.
    Raises `DeadlockError` where every task waits and no timer is set; whatever `main` raises comes through.
    """
    time = VirtualClock() if clock is None else clock
    match backend:
        case "asyncio":
            options = {"loop_factory": partial(_VirtualLoop, time)}
            return anyio.run(main, backend="asyncio", backend_options=options)
        case "trio":
            from mqflow.testing.virtual_trio import run_on_trio  # noqa: PLC0415 - trio is optional

            return run_on_trio(main, time, seed)
        case _:
            assert_never(backend)


class TurnCounter:
    """Turns of a loop at one moment are free, up to a number; then each takes a little, or a busy loop would stop time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._turns = 0

    def turn(self) -> None:
        """Count one turn in which somebody had something to do."""
        self._turns += 1
        if self._turns > _TURNS_FREE:
            self._clock.advance(_TURN_S)

    def idle(self) -> None:
        """Start again: nobody had anything to do."""
        self._turns = 0


def deadlock(clock: VirtualClock, waiting: Iterable[tuple[str, object]]) -> DeadlockError:
    """Return the error that says who waits, by name and coroutine, and where."""
    lines = sorted(f"  {name}: {_where(coroutine)}" for name, coroutine in waiting)
    return DeadlockError(
        f"After {clock.monotonic():g} virtual seconds nothing can happen any more: no timer is set, and these tasks wait for "
        "each other, or for a thread that nobody announced (VirtualClock.held() announces one):\n" + "\n".join(lines)
    )


class _Jumping(selectors.DefaultSelector):
    """Waits for real only while real work is under way; otherwise the wait is a jump of the clock."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self._turns = TurnCounter(clock)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            self._turns.turn()
            return events
        self._turns.idle()
        if self._real_work() and (events := self._listen()):
            return events
        if timeout is not None:
            self._clock.advance(timeout)
            return []
        events = super().select(PATIENCE_S)
        if not events:
            raise deadlock(self._clock, ((task.get_name(), task.get_coro()) for task in asyncio.all_tasks(self.loop)))
        return events

    def _real_work(self) -> bool:
        return self._clock.is_held or any(waits_for_thread(task.get_coro()) for task in asyncio.all_tasks(self.loop))

    def _listen(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what happens while real work is under way."""
        until = SYSTEM_CLOCK.monotonic() + self._clock.real_work_s_max
        while self._real_work() and SYSTEM_CLOCK.monotonic() < until:
            if events := super().select(POLL_S):
                return events
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        selector = _Jumping(clock)
        self._clock = clock
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._clock.monotonic()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # typeshed's variadics
        future = super().run_in_executor(executor, func, *args)
        self._clock.hold()
        future.add_done_callback(lambda _: self._clock.release())
        return future


def waits_for_thread(coroutine: object) -> bool:
    """Whether this coroutine waits for a function that anyio runs in a thread: such work is announced by being awaited."""
    return any(frame.f_code.co_name == "run_sync_in_worker_thread" for frame in _frames(coroutine))


_PLUMBING: Final = ("/asyncio/", "/anyio/", "/trio/", "/contextlib.py")


def _where(coroutine: object) -> str:
    """Return where a coroutine stands: the innermost frame that is not an event loop's own."""
    frames = tuple(_frames(coroutine))
    own = [frame for frame in frames if not any(part in frame.f_code.co_filename for part in _PLUMBING)]
    if not frames:
        return "not started"
    frame = own[-1] if own else frames[0]
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


def _frames(coroutine: object) -> Iterator[FrameType]:
    """Give the frames of a chain of awaits, outermost first."""
    for _ in range(_AWAITS_MAX):
        frame = _first(coroutine, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            yield frame
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")
        if coroutine is None:
            return


def _first(holder: object, *names: str) -> Any:
    return next((found for name in names if (found := getattr(holder, name, None)) is not None), None)
