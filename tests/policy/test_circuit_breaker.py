"""The circuit breaker: which outcomes open it, and what ends the half-open state."""

import math
from functools import partial

import pytest

from mqflow.policy.circuit_breaker import CLOSED, HALF_OPEN, BreakerState, CircuitBreaker, Closed, Open, after, wait_s
from mqflow.policy.poison.disposition import Completed, Failed, Interrupted, Outcome, Undecodable

NOW = 100.0
TRIAL = "trial"
BREAKER = CircuitBreaker(failures=3, open_s=30.0)
GOOD, BAD, REJECTED, GARBLED = Completed(), Failed("ValueError"), Failed("Reject", final=True), Undecodable("x")
ENDED = Interrupted("the listener stopped")


@pytest.mark.parametrize(
    ("state", "outcome", "trial", "expected"),
    [
        (CLOSED, GOOD, "", CLOSED),
        (CLOSED, BAD, "", Closed(1)),
        (Closed(1), GOOD, "", CLOSED),
        (Closed(2), BAD, "", Open(130.0)),
        (Closed(2), Failed("Retry", retry_after_s=9.0), "", Open(130.0)),
        # The message is at fault, and not the handler.
        (Closed(2), REJECTED, "", Closed(2)),
        (Closed(2), GARBLED, "", Closed(2)),
        (Closed(2), ENDED, "", Closed(2)),
        (Closed(2), None, "", Closed(2)),
        # A handling from before the opening says nothing new.
        (Open(130.0), GOOD, "", Open(130.0)),
        (Open(130.0), BAD, "", Open(130.0)),
        (HALF_OPEN, GOOD, "", HALF_OPEN),
        (HALF_OPEN, BAD, "", HALF_OPEN),
        # The trial decides.
        (HALF_OPEN, GOOD, TRIAL, CLOSED),
        (HALF_OPEN, BAD, TRIAL, Open(130.0)),
        # A trial that says nothing is repeated at once.
        (HALF_OPEN, REJECTED, TRIAL, Open(NOW)),
        (HALF_OPEN, GARBLED, TRIAL, Open(NOW)),
        (HALF_OPEN, ENDED, TRIAL, Open(NOW)),
        (HALF_OPEN, None, TRIAL, Open(NOW)),
    ],
)
def test_the_state_after_an_outcome(state: BreakerState, outcome: Outcome | None, trial: str, expected: BreakerState) -> None:
    assert expected == after(BREAKER, state, outcome, NOW, is_trial=trial == TRIAL)


@pytest.mark.parametrize(
    ("state", "expected"), [(Closed(2), 0.0), (Open(130.0), 30.0), (Open(NOW), 0.0), (Open(90.0), 0.0), (HALF_OPEN, math.inf)]
)
def test_the_wait_for_the_next_message(state: BreakerState, expected: float) -> None:
    assert expected == wait_s(state, NOW)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(CircuitBreaker, failures=0), "failures is a number, 1 or more"),
        (partial(CircuitBreaker, failures=True), "failures is a number, 1 or more"),
        (partial(CircuitBreaker, open_s=0), "open_s is more than 0 seconds"),
    ],
)
def test_a_breaker_that_makes_no_sense_is_refused(make: "partial[CircuitBreaker]", said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
