"""Finds puts of a handler that were never awaited. Such a put never begins, so its message would be lost without an error.

This file knows the delivery and coroutines; it knows no message to put and no session.
"""

import inspect
import sys
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from itertools import islice
from types import FrameType
from typing import Any, Final, TypeVar

from anyio.lowlevel import checkpoint

from mqflow.app.errors import NeverAwaitedError
from mqflow.runtime.listener.delivery import Delivery

__all__ = ("begin", "check", "note", "noted")

C = TypeVar("C", bound=Coroutine[Any, Any, Any])

_DELIVERY: Final[ContextVar[Delivery | None]] = ContextVar("_DELIVERY", default=None)
_INSTRUCTION_BYTES: Final = 2


def begin(delivery: Delivery) -> None:
    """Record that this task handles the delivery, and that tasks and threads that it starts do so too."""
    _DELIVERY.set(delivery)


def noted(coroutine: C, name: str) -> C:
    """Return the coroutine of a call of the application. If a handler made the call, it must await the coroutine.

    Raises `TypeError` in the thread of a plain function, because it cannot await.
    """
    delivery = _DELIVERY.get()
    if delivery is None or delivery.is_over:
        return coroutine
    frame = sys._getframe(1)  # noqa: SLF001 - the line of the call
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("mqflow.app."):
        frame = frame.f_back
    return note(delivery, coroutine, name, frame)


def note(delivery: Delivery, coroutine: C, name: str, frame: FrameType) -> C:
    """Record and return the coroutine of a put. The code at `frame` must await it before its handler returns.

    Raises `TypeError` in the thread of a plain function, because it cannot await.
    """
    if type(delivery.running) is int and delivery.running == threading.get_ident():
        coroutine.close()
        raise TypeError(
            f"{name} must be awaited, and a handler that is a plain function cannot await it: nothing is put. Call "
            "ctx.put_blocking(...) instead, or declare the handler with `async def`."
        )
    calls, call = delivery.calls, (coroutine, name, frame.f_code, frame.f_lasti)
    if calls and calls[-1][0].cr_frame is None:  # the previous call has ended, so it was awaited
        calls[-1] = call
    else:
        calls.append(call)
    return coroutine


async def check(delivery: Delivery) -> None:
    """Raise `NeverAwaitedError` if a call of the handler was never awaited. It names the line of the first such call."""
    if not _never_begun(delivery):
        return
    for _ in range(2):  # the handler can have made a task for the call: let it begin
        await checkpoint()
    for index in _never_begun(delivery):
        coroutine, name, code, last_instruction = delivery.calls[index]
        coroutine.close()
        positions = islice(code.co_positions(), last_instruction // _INSTRUCTION_BYTES, None)
        line = next(positions, (None,))[0] or code.co_firstlineno
        raise NeverAwaitedError(name, code.co_filename, line)


def _never_begun(delivery: Delivery) -> list[int]:
    return [
        index
        for index, (coroutine, *_) in enumerate(delivery.calls)
        if coroutine.cr_frame is not None and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    ]
