"""The one place that catches whatever a user's code raises, and reads it as an outcome."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mqflow.policy.disposition import Completed, Outcome
from mqflow.policy.outcomes import outcome_of

__all__ = ("COMPLETED", "attempt")

T = TypeVar("T")

COMPLETED = Completed()


async def attempt(
    call: Callable[[T], Awaitable[Outcome | None]], argument: T, never_retry: tuple[type[BaseException], ...]
) -> Outcome:
    """Return what the call came to: what it returned, `COMPLETED` for nothing, or what its exception means.

    A cancellation is not an exception of the user's and goes through.
    """
    try:
        return await call(argument) or COMPLETED
    except Exception as error:  # noqa: BLE001 - whatever it was is an outcome
        return outcome_of(error, never_retry)
