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


#: By number, so that a wrong name in the table shows. IBM publishes no such list: the classes are this project's.
EXPECTED = {
    Class.RETRY: (2003, 2033, 2080),
    Class.REOPEN: (2019, 2041, 2052, 2517, 2548),
    Class.RECONNECT: (
        *(2009, 2018, 2161, 2162, 2202, 2203, 2528, 2273, 2279, 2601),  # it was there and is lost
        *(2549, 2195),  # the outcome of a call is unknown
        *(2059, 2538, 2537, 2543, 2025, 2568),  # it could not be had
    ),
    Class.WAIT: (2016, 2051, 2268, 2042, 2053, 2056, 2192, 2071, 2102, 2017, 2270, 2189, 2101),
    Class.CONFIGURATION: (
        *(2035, 2063, 2217, 2577, 2381, 2392, 2393, 2397, 2398, 2399, 2400, 2401),  # who one is, and what one may
        *(2058, 2539, 2540, 2277, 2278, 2600, 2298, 2012, 2546, 2547, 2555, 2556),  # where to connect to
        *(2024, 2001, 2082, 2085, 2086, 2087, 2152, 2153, 2043, 2057, 2045, 2046, 2011),  # what to open
        *(2036, 2037, 2038, 2039, 2040, 2093, 2094, 2095, 2096, 2097, 2098),  # what for
    ),
    Class.MESSAGE: (
        *(2079, 2110, 2111, 2112, 2113, 2114, 2115, 2116, 2117, 2118, 2119, 2120, 2190, 2272),  # got, but not as wanted
        *(2141, 2142, 2248, 2334, 2335, 2421, 2364, 2363, 2362),  # its headers, or its past
        *(2030, 2031, 2218, 2013, 2014, 2026, 2027, 2029, 2047, 2048, 2049, 2050, 2061, 2104, 2185),  # cannot be put
    ),
}


@pytest.mark.parametrize("expected", Class)
def test_a_reason_code_asks_for(expected: Class) -> None:
    assert dict.fromkeys(EXPECTED[expected], expected) == {reason: classify(reason) for reason in EXPECTED[expected]}


def test_the_table_lists_nothing_else() -> None:
    assert {reason for reasons in EXPECTED.values() for reason in reasons} == set(CLASSES)


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
