"""One table says what a reason code asks for; the ladder says how long to wait between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.reason_codes import Reason
from mqflow.policy import reconnection
from mqflow.policy.reconnection import CLASSES, LADDER, Class, classify, delay_s

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


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (2003, Class.RETRY),
        (2033, Class.RETRY),
        (2080, Class.RETRY),
        (2019, Class.REOPEN),
        (2041, Class.REOPEN),
        (2052, Class.REOPEN),
        # The connection was there and is lost.
        (2009, Class.RECONNECT),
        (2162, Class.RECONNECT),
        (2203, Class.RECONNECT),
        (2161, Class.RECONNECT),
        (2202, Class.RECONNECT),
        (2273, Class.RECONNECT),
        (2279, Class.RECONNECT),
        (2601, Class.RECONNECT),
        (2549, Class.RECONNECT),
        # It could not be had.
        (2059, Class.RECONNECT),
        (2538, Class.RECONNECT),
        (2537, Class.RECONNECT),
        (2543, Class.RECONNECT),
        (2025, Class.RECONNECT),
        (2568, Class.RECONNECT),
        (2016, Class.WAIT),
        (2042, Class.WAIT),
        (2051, Class.WAIT),
        (2053, Class.WAIT),
        (2192, Class.WAIT),
        # Configuration and security.
        (2035, Class.CONFIGURATION),
        (2058, Class.CONFIGURATION),
        (2063, Class.CONFIGURATION),
        (2539, Class.CONFIGURATION),
        (2540, Class.CONFIGURATION),
        (2381, Class.CONFIGURATION),
        (2393, Class.CONFIGURATION),
        (2397, Class.CONFIGURATION),
        (2398, Class.CONFIGURATION),
        (2400, Class.CONFIGURATION),
        (2577, Class.CONFIGURATION),
        (2600, Class.CONFIGURATION),
        (2277, Class.CONFIGURATION),
        (2278, Class.CONFIGURATION),
        (2298, Class.CONFIGURATION),
        (2085, Class.CONFIGURATION),
        (2046, Class.CONFIGURATION),
        (2110, Class.MESSAGE),
        (2119, Class.MESSAGE),
        (2079, Class.MESSAGE),
        (2030, Class.MESSAGE),
        (2334, Class.MESSAGE),
        (2362, Class.MESSAGE),
    ],
)
def test_a_reason_code_asks_for(reason: int, expected: Class) -> None:
    assert expected is classify(reason)


@pytest.mark.parametrize("reason", [0, 2999, Reason.RECONNECTING])
def test_an_unknown_reason_code_waits(reason: int) -> None:
    assert Class.WAIT is classify(reason)


def test_no_reason_code_is_in_two_classes() -> None:
    listed = [
        reason
        for name in ("_RETRY", "_REOPEN", "_RECONNECT", "_WAIT", "_CONFIGURATION", "_MESSAGE")
        for reason in getattr(reconnection, name)
    ]

    assert sorted(CLASSES) == sorted(listed)
