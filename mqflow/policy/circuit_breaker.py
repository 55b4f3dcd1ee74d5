"""Decides when a listener stops getting messages because its handler fails, and when the listener tries one message again.

This module only computes: `now` is an argument, and the runtime does the waiting.
"""

import math
from typing import Final, assert_never

from msgspec import Struct

from mqflow.policy.poison.disposition import Completed, Failed, Outcome

__all__ = ("CLOSED", "HALF_OPEN", "BreakerState", "CircuitBreaker", "Closed", "HalfOpen", "Open", "after", "wait_s")


class CircuitBreaker(Struct, frozen=True, kw_only=True):
    """Pauses a listener after several failures in a row. After the pause one message is tried: its success ends the pause.

    A failure is an exception of the handler, or the end of its time limit. Undecodable messages, `Reject` and exceptions of
    `never_retry` do not count, because the message causes them. Raises `ValueError` for a value out of range.
    """

    #: The number of failures in a row that open the breaker. If the backout threshold is lower, an outage moves messages to the
    #: backout queue before the breaker opens.
    failures: int = 10
    #: The length of the pause, in seconds.
    open_s: float = 30.0

    def __post_init__(self) -> None:
        is_count = isinstance(self.failures, int) and not isinstance(self.failures, bool) and self.failures >= 1
        for claim, holds in (
            ("failures is a number, 1 or more", is_count),
            ("open_s is more than 0 seconds", isinstance(self.open_s, int | float) and 0 < self.open_s < math.inf),
        ):
            if not holds:
                raise ValueError(f"{self} is not a valid circuit breaker: {claim}.")


class Closed(Struct, frozen=True):
    """The normal state: the listener gets messages."""

    #: The number of failures since the last success.
    failures: int = 0


class Open(Struct, frozen=True):
    """The listener gets no message before the time `until`. The first message after that time is the trial."""

    until: float


class HalfOpen(Struct, frozen=True):
    """The handler has the trial message, and the listener gets no other message."""


BreakerState = Closed | Open | HalfOpen
CLOSED: Final = Closed()
HALF_OPEN: Final = HalfOpen()


def wait_s(state: BreakerState, now: float) -> float:
    """Return the seconds until the listener may get a message: 0 for now, infinity until the trial has ended."""
    match state:
        case Closed():
            return 0.0
        case Open(until=until):
            return max(0.0, until - now)
        case HalfOpen():
            return math.inf
        case _:
            assert_never(state)


def after(breaker: CircuitBreaker, state: BreakerState, outcome: Outcome | None, now: float, *, is_trial: bool) -> BreakerState:
    """Return the state of the breaker after a handling has ended. `outcome` is None if no handler got the message.

    Only the trial ends the half-open state. A handling that began before the breaker opened does not change an open breaker. If
    the trial message was itself the cause of its failure, the next message is a new trial, without a pause.
    """
    match state:
        case HalfOpen() if is_trial:
            if isinstance(outcome, Completed):
                return CLOSED
            return Open(now + breaker.open_s if _is_failure(outcome) else now)
        case Closed(failures=failures):
            if isinstance(outcome, Completed):
                return CLOSED
            if not _is_failure(outcome):
                return state
            return Open(now + breaker.open_s) if failures + 1 >= breaker.failures else Closed(failures + 1)
        case Open() | HalfOpen():
            return state
        case _:
            assert_never(state)


def _is_failure(outcome: Outcome | None) -> bool:
    return isinstance(outcome, Failed) and not outcome.final
