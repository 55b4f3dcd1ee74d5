"""Finds out whether a cancel scope of mqflow or other code has cancelled a task, and removes a cancellation by other code.

mqflow stops its tasks only through the cancel scopes around them. Any other cancellation is called foreign: code of the
application has called `Task.cancel`, or has raised the exception of an earlier cancellation. This module knows no message.
"""

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

if TYPE_CHECKING:
    import asyncio

__all__ = (
    "cancellations_of_task",
    "is_by_scope",
    "is_cancelled_from_within",
    "raise_unless_foreign",
    "remove_cancellation",
    "undisturbed",
)

T = TypeVar("T")


def cancellations_of_task() -> Callable[[], int]:
    """Return a function that counts the cancellations of the current asyncio task which nothing has removed. On trio: 0."""
    task = _current_task()
    return int if task is None else task.cancelling


def is_cancelled_from_within() -> bool:
    """Return whether the current asyncio task has a cancellation that nothing has removed. Always false on trio."""
    return cancellations_of_task()() > 0


async def is_by_scope() -> bool:
    """Return whether a cancel scope around the caller is cancelled. Call this when a task has received a cancellation."""
    try:
        await checkpoint_if_cancelled()
    except anyio.get_cancelled_exc_class():
        return True
    return False


async def raise_unless_foreign() -> None:
    """Raise the cancellation if a cancel scope around the caller is cancelled. Otherwise it is foreign: remove it.

    Call this function when a task has received a cancellation.
    """
    await checkpoint_if_cancelled()
    await remove_cancellation()


async def remove_cancellation() -> bool:
    """Remove the foreign cancellations of the current task. Return whether a cancellation was not delivered yet.

    An undelivered cancellation would interrupt the next wait of the task, which can be a commit.
    """
    task = _current_task()
    if task is None or not task.cancelling():
        return False
    is_undelivered = bool(getattr(task, "_must_cancel", False))  # getattr: a private name, which anyio reads too
    while task.uncancel():
        continue
    if is_undelivered:
        # In Python 3.11 and 3.12, `uncancel` keeps an undelivered cancellation: only a wait delivers it.
        with suppress(anyio.get_cancelled_exc_class()), anyio.CancelScope(shield=True):
            await checkpoint()
    return is_undelivered


async def undisturbed(wait: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `wait`. After a foreign cancellation, wait again."""
    while True:
        try:
            return await wait()
        except anyio.get_cancelled_exc_class():
            await raise_unless_foreign()


def _current_task() -> "asyncio.Task[object] | None":
    """Return the task of asyncio that runs now; None on trio."""
    # `import mqflow` loads no event loop; only the event loop that runs has been loaded. This function is called for each
    # message, so the loop is looked up only once, unless trio can be the event loop too.
    loaded = sys.modules.get("asyncio")
    if loaded is None or ("trio" in sys.modules and loaded._get_running_loop() is None):  # noqa: SLF001 - it raises no error
        return None
    task: asyncio.Task[object] | None = loaded.current_task()
    return task
