"""The one place that catches whatever a user's code raises, and reads it as an outcome."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.policy.poison.outcomes import outcome_of

__all__ = ("COMPLETED", "attempt")

T = TypeVar("T")

COMPLETED: Final = Completed()


async def attempt(
    call: Callable[[T], Awaitable[Outcome | None]], argument: T, never_retry: tuple[type[BaseException], ...]
) -> Outcome:
    """Return what the call came to: what it returned, `COMPLETED` for nothing, or what its exception means.

    A cancellation is not an exception of the user's and goes through; but on asyncio, one that is nobody's is a failure.
    """
    try:
        return await call(argument) or COMPLETED
    except Exception as error:  # noqa: BLE001 - whatever it was is an outcome
        return outcome_of(error, never_retry)
    except anyio.get_cancelled_exc_class() as error:
        await checkpoint_if_cancelled()  # raises where it is ours
        import asyncio  # noqa: PLC0415 - `import mqflow` loads no event loop; who is here on asyncio has loaded it

        task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
        if task is None or task.cancelling():
            raise
        # Let through, it would end the task of the worker without a word, and its listener would get nothing any more.
        said = f"something that the handler waited for was cancelled, and not the handler. {error}".rstrip()
        return Failed("asyncio.CancelledError", said, final=isinstance(error, never_retry))
