"""Finds stuck code: returns the stack of a handler, and detects a blocked event loop and a stop that does not end.

The watchdog has its own thread, because a task on a blocked event loop cannot report that the loop is blocked.
"""

import logging
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Final

import anyio

from mqflow.policy.poison.failure_origin import first_of_application, frame_in
from mqflow.runtime.cancellation import undisturbed
from mqflow.world import Clock, Runner

__all__ = ("BLOCKED_AFTER_S", "Watchdog", "place_of", "stack_of")

BLOCKED_AFTER_S: Final = 5.0
_BEAT_S_MIN: Final = 0.05
_BEAT_S_MAX: Final = 1.0
_RUNTIME: Final = str(Path(__file__).parent)
_logger: Final = logging.getLogger("mqflow")


class Watchdog:
    """Watches the event loop on which it was made, and the stop of the application on this loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        blocked_after_s: float = BLOCKED_AFTER_S,
        overdue: Callable[[], str] = lambda: "",
        end: Callable[[str], None] = _logger.error,
    ) -> None:
        """Take a function that names the tasks that delay the stop, or returns "", and a function that ends the process."""
        self._clock: Final = clock
        self._blocked_after_s = blocked_after_s
        self._overdue: Final = overdue
        self._end: Final = end
        self._thread: Final = threading.get_ident()
        self._beat_at = clock.monotonic()
        self._reported = False
        self._ended = threading.Event()

    @asynccontextmanager
    async def watch(self, runner: Runner) -> AsyncIterator[None]:
        """Watch the event loop inside this context."""
        runner.start(self._look, "mqflow watchdog")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(undisturbed, self._beat)
                yield
                group.cancel_scope.cancel()
        finally:
            self._ended.set()

    def report_after(self, limit_s: float) -> None:
        """Report a blocked event loop after `limit_s` at the latest, because a handler has this time limit."""
        self._blocked_after_s = min(self._blocked_after_s, limit_s)

    def turned(self) -> None:
        """Record that the event loop is not blocked."""
        self._beat_at = self._clock.monotonic()
        self._reported = False

    def check(self) -> str | None:
        """Return the stack of the loop's thread if the loop has been blocked for too long. Report each block only once."""
        blocked_s = self._clock.monotonic() - self._beat_at
        if blocked_s < self._blocked_after_s or self._reported:
            return None
        self._reported = True
        return f"The event loop has not turned for {blocked_s:.3g} s; a handler blocks it here:\n{stack_of(self._thread)}"

    @property
    def _beat_s(self) -> float:
        """The pause between two checks: a fifth of the time after which a blocked loop is reported, within limits."""
        return max(_BEAT_S_MIN, min(_BEAT_S_MAX, self._blocked_after_s / 5))

    async def _beat(self) -> None:
        while True:
            self.turned()
            await anyio.sleep(self._beat_s)

    def _look(self) -> None:
        while not self._ended.wait(self._beat_s):
            blocked = self.check()
            if blocked is not None:
                _logger.error("%s", blocked)
            overdue = self._overdue()
            if overdue:
                self._end(f"{overdue}\nThe event loop is here:\n{stack_of(self._thread)}")


def stack_of(running: object) -> str:
    """Return the stack of a suspended coroutine, or of the thread with this identity; "" if that thread does not run.

    The stack begins at the first frame of the application inside a listener, because the frames outside are always the same.
    """
    frames = _frames(running)
    within = next((at for at, (frame, _) in enumerate(frames) if frame.f_code.co_filename.startswith(_RUNTIME)), len(frames))
    first = first_of_application(_written(frames[within:]))
    own = frames if first is None else frames[within + first :]
    return "".join(traceback.format_list(traceback.StackSummary.extract(iter(own))))


def place_of(running: object) -> str:
    """Return `file:line in function` of the innermost frame of the application, or "". For `running`, see `stack_of`."""
    return frame_in(_written(_frames(running)))


_Frames = list[tuple[FrameType, int]]


def _written(frames: _Frames) -> list[tuple[str, int, str]]:
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames]


def _frames(running: object) -> _Frames:
    """Return the frames of a thread; or of a coroutine, and of the coroutines that it awaits. The outermost comes first."""
    if isinstance(running, int):
        frame = sys._current_frames().get(running)  # noqa: SLF001 - the documented way to see another thread's stack
        return [] if frame is None else list(traceback.walk_stack(frame))[::-1]
    frames: _Frames = []
    while isinstance(running, CoroutineType) and running.cr_frame is not None:
        frames.append((running.cr_frame, running.cr_frame.f_lineno))
        running = running.cr_await
    return frames
