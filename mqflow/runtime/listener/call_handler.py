"""Calls a handler, and turns every exception of the user's code into an outcome.

Only this module catches all exceptions. It knows no message and no session.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.policy.poison.outcomes import outcome_of

__all__ = ("COMPLETED", "call_handler", "call_handler_within")

T = TypeVar("T")

COMPLETED: Final = Completed()


async def call_handler(
    handler: Callable[[T], Awaitable[Outcome | None]], argument: T, never_retry: tuple[type[BaseException], ...]
) -> Outcome:
    """Return the outcome that the handler returned, or `COMPLETED` for None. An exception of the handler becomes an outcome.

    A cancellation of the worker is raised. On asyncio, if only something that the handler waits for is cancelled, the handler
    has failed.
    """
    try:
        return await handler(argument) or COMPLETED
    except Exception as error:  # noqa: BLE001 - every exception of the user's code is an outcome
        return outcome_of(error, never_retry)
    except anyio.get_cancelled_exc_class() as error:
        await checkpoint_if_cancelled()  # raises if the worker is cancelled
        import asyncio  # noqa: PLC0415 - `import mqflow` loads no event loop; an application on asyncio has loaded asyncio

        task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
        if task is None or task.cancelling():
            raise
        # If this exception is raised, the task of the worker ends silently, and the listener gets no more messages.
        text = f"something that the handler waited for was cancelled, and not the handler. {error}".rstrip()
        return Failed("asyncio.CancelledError", text, final=isinstance(error, never_retry))


async def call_handler_within(
    limit_s: float,
    handler: Callable[[T], Awaitable[Outcome | None]],
    argument: T,
    never_retry: tuple[type[BaseException], ...],
) -> Outcome:
    """Return the result of `call_handler`, or `Failed` if the handler takes longer than its time limit."""
    with anyio.move_on_after(limit_s):
        return await call_handler(handler, argument, never_retry)
    return Failed("TimeLimitExceeded", f"the handler took longer than its time limit of {limit_s:g} s")
