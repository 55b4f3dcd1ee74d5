"""The ladder says how long to wait between two attempts to get a connection back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.reconnect.reconnection import LADDER, delay_s

IBM = "IBM, Automatic JMS client reconnection with CCDTs"

#: "The first attempt is made after an initial delay of 1 second, plus a random element up to 250 milliseconds", and so on.
ATTEMPTS = [(1, 1, 0.25), (2, 2, 0.5), (3, 4, 1), (4, 8, 2), (5, 16, 4), (6, 25, 6.25), (7, 25, 6.25), (1_000_000, 25, 6.25)]


@pytest.mark.parametrize(("attempt", "fixed_s", "random_s"), ATTEMPTS, ids=lambda value: f"{IBM}: {value}")
def test_an_attempt_waits_its_fixed_part_and_a_random_part(attempt: int, fixed_s: float, random_s: float) -> None:
    assert [fixed_s, fixed_s + random_s / 2] == [delay_s(attempt, 0.0), delay_s(attempt, 0.5)]


@given(st.integers(1, 2**31), st.floats(0, 1, exclude_max=True))
def test_an_attempt_never_waits_longer_than_31_seconds_and_a_quarter(attempt: int, random: float) -> None:
    assert 1 <= delay_s(attempt, random) <= 31.25


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_an_attempt_waits_longer_than_the_one_before_until_the_ladder_ends(attempt: int, one: float, other: float) -> None:
    assert attempt >= len(LADDER) or delay_s(attempt, one) < delay_s(attempt + 1, other)


def test_the_delays_can_be_others() -> None:
    assert [0.5, 0.5, 3.0] == [delay_s(attempt, 0.5, ((0, 1), (2, 2))) for attempt in (0, 1, 5)]
