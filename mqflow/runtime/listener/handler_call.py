"""Calls a handler, and turns every exception of the user's code into an outcome.

Only this module catches all exceptions of handlers. It makes no decision about messages.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from types import CoroutineType
from typing import Final, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from mqflow.policy.poison.disposition import Completed, Failed, Outcome
from mqflow.policy.poison.failure_origin import Raised, raised_by
from mqflow.policy.poison.outcomes import outcome_of, readable
from mqflow.runtime.cancellation import is_cancelled_from_within, raise_unless_foreign, remove_cancellation
from mqflow.runtime.listener.delivery import Delivery

__all__ = ("COMPLETED", "call_handler", "call_handler_in_middleware", "call_handler_within")

T = TypeVar("T")
D = TypeVar("D", Delivery, Sequence[Delivery])

COMPLETED: Final = Completed()

_logger: Final = logging.getLogger("mqflow")
#: The seconds that a handler may take to end after its time limit has cancelled it. After that, the log names the handler.
_LATE_S: Final = 0.1
_BY_ITSELF: Final = "the handler's own task was cancelled, and not by the listener"
_UNDER_IT: Final = "something that the handler waited for was cancelled, and not the handler"


async def call_handler(
    handler: Callable[[T], Awaitable[Outcome | None]],
    argument: T,
    never_retry: tuple[type[BaseException], ...],
    cancellations: Callable[[], int] = is_cancelled_from_within,
) -> Outcome:
    """Call the handler. Return its outcome, or `COMPLETED` if it returns None. An exception gives an outcome too.

    Only a cancel scope around the caller can interrupt the handler: then its cancellation is raised. After any other
    cancellation, the outcome is a failure, and the cancellation is removed from the task. `KeyboardInterrupt` is raised,
    because a person stops the program.
    """
    try:
        outcome = await handler(argument) or COMPLETED
        if outcome is not COMPLETED:
            outcome = readable(outcome)
    except Exception as error:  # noqa: BLE001 - every exception of the user's code is an outcome
        outcome = outcome_of(error, never_retry)
    except BaseException as error:  # noqa: BLE001 - as above; `_outcome_of` raises the exceptions that are no outcome
        outcome = await _outcome_of(error, never_retry)
    if cancellations() and await remove_cancellation() and isinstance(outcome, Completed):
        return Failed("asyncio.CancelledError", f"{_BY_ITSELF}; then the handler returned without a wait")
    return outcome


async def call_handler_in_middleware(
    handler: Callable[[T], Awaitable[Outcome | None]], argument: T, never_retry: tuple[type[BaseException], ...]
) -> Outcome:
    """Call the handler like `call_handler`, but raise each cancellation: it can belong to a middleware's `asyncio.timeout`.

    If no middleware catches the cancellation, the `call_handler` around the middleware turns it into an outcome.
    """
    try:
        return await handler(argument) or COMPLETED
    except Exception as error:  # noqa: BLE001 - every exception of the user's code is an outcome
        return outcome_of(error, never_retry)
    except BaseException as error:
        if _has(error, anyio.get_cancelled_exc_class()) and is_cancelled_from_within():
            raise
        return await _outcome_of(error, never_retry)


async def call_handler_within(
    limit_s: float, handler: Callable[[D], Awaitable[Outcome | None]], argument: D, never_retry: tuple[type[BaseException], ...]
) -> Outcome:
    """Return the result of `call_handler`, or `Failed` if the handler takes longer than its time limit.

    The limit interrupts a wait of the handler, and the outcome names the frame of this wait. If the handler does not wait any
    more, it has its own outcome, however late. The log names a handler that the limit did not interrupt in time.
    """
    outcome: Outcome | None = None
    raised = Raised()
    began_s = anyio.current_time()
    try:
        with anyio.move_on_after(limit_s):
            try:
                outcome = await call_handler(handler, argument, never_retry)
            except anyio.get_cancelled_exc_class() as cancelled:
                raised = raised_by(_first(cancelled))
                raise
    except anyio.get_cancelled_exc_class():  # on asyncio, the scope raises this if other code has cancelled the task too
        await raise_unless_foreign()
    if outcome is None:
        text = f"the handler took longer than its time limit of {limit_s:g} s"
        outcome = Failed("TimeLimitExceeded", text, raised=raised)
    took_s = anyio.current_time() - began_s
    if took_s > limit_s + _LATE_S:
        delivery = argument if isinstance(argument, Delivery) else argument[0]
        _logger.error(
            "%s: the handler of message %s took %.3g s, and its time limit is %g s. It made a call that blocks the event loop, "
            "or it ignored its cancellation. Its outcome: %s. %s",
            delivery.listener,
            delivery.got.descriptor.message_id.hex(),
            took_s,
            limit_s,
            type(outcome).__name__,
            _place_of(delivery.running),
        )
    return outcome


def _place_of(running: object) -> str:
    """Return the place in the source where an async handler is now; "" for a handler in a thread."""
    code = running.cr_code if isinstance(running, CoroutineType) else None
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}" if code is not None else ""


async def _outcome_of(error: BaseException, never_retry: tuple[type[BaseException], ...]) -> Outcome:
    """Return the outcome of an exception whose class is not a subclass of `Exception`.

    Raises the cancellation of a cancel scope around the caller. Raises `KeyboardInterrupt`, and also `GeneratorExit`, which
    ends this coroutine.
    """
    if isinstance(error, GeneratorExit) or _has(error, KeyboardInterrupt):
        raise error
    cancelled = anyio.get_cancelled_exc_class()
    if _has(error, cancelled):
        await checkpoint_if_cancelled()
    if not isinstance(error, cancelled):
        return outcome_of(error, never_retry)
    library = cancelled.__module__.partition(".")[0]
    text = f"{_BY_ITSELF if library == 'trio' or is_cancelled_from_within() else _UNDER_IT}. {error}".rstrip()
    return Failed(f"{library}.{cancelled.__name__}", text, final=isinstance(error, never_retry), raised=raised_by(error))


def _has(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether the error, or an error in its group at any depth, is of this class."""
    return isinstance(error, kind) or (isinstance(error, BaseExceptionGroup) and error.subgroup(kind) is not None)


def _first(cancelled: BaseException) -> BaseException:
    """Return the first cancellation, which the handler got. `call_handler` and each middleware can have raised another."""
    while isinstance(cancelled.__context__, type(cancelled)):
        cancelled = cancelled.__context__
    return cancelled
