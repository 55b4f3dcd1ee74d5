"""Where a handler stands: its stack as text, whether it is suspended in a coroutine or runs in a thread.

Reads frames; changes nothing.
"""

import sys
import traceback
from types import CoroutineType, FrameType
from typing import Any

__all__ = ("stack_of",)


def stack_of(running: Any) -> str:
    """Return the stack of a coroutine that is suspended, or of the thread with that identity; "" where there is none."""
    if isinstance(running, int):
        frame = sys._current_frames().get(running)  # noqa: SLF001 - the documented way to see another thread's stack
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
    return "".join(traceback.format_list(traceback.StackSummary.extract((f, f.f_lineno) for f in _frames(running))))


def _frames(awaited: Any) -> list[FrameType]:
    """Return the frames from a coroutine down to what it finally waits for."""
    frames: list[FrameType] = []
    while isinstance(awaited, CoroutineType) and awaited.cr_frame is not None:
        frames.append(awaited.cr_frame)
        awaited = awaited.cr_await
    return frames
