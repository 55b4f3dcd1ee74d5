"""The delays between attempts to reconnect, ReconDelay as mqclient.ini writes it, and the limit of the attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.reconnect.delays import LADDER, DelaysError, Ladder, delay_s, next_delay_s, parse_delays

#: IBM's defaults in the form of ReconDelay (from memory; "Automatic JMS client reconnection with CCDTs" has the same numbers).
DEFAULTS = "(1000,250)(2000,500)(4000,1000)(8000,2000)(16000,4000)(25000,6250)"

IBM = "IBM, Automatic JMS client reconnection with CCDTs"

#: "The first attempt is made after an initial delay of 1 second, plus a random element up to 250 milliseconds", and so on.
ATTEMPTS = [(1, 1, 0.25), (2, 2, 0.5), (3, 4, 1), (4, 8, 2), (5, 16, 4), (6, 25, 6.25), (7, 25, 6.25), (1_000_000, 25, 6.25)]


@pytest.mark.parametrize(
    ("text", "ladder"),
    [
        (DEFAULTS, LADDER),
        ("(1000,200)(2000,200)(4000,1000)", ((1, 0.2), (2, 0.2), (4, 1))),  # q016860's example
        ("(1000)", ((1, 0),)),
        (" ( 1000 , 200 ) (0,5) ", ((1, 0.2), (0, 0.005))),
        ("(0,0)(1,0)", ((0, 0), (0.001, 0))),
    ],
)
def test_a_recondelay_is_a_ladder_in_milliseconds(text: str, ladder: Ladder) -> None:
    assert ladder == parse_delays(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "1000", "(1000", "(1000,)", "(,200)", "(1000,200),(2000,200)", "(-1)", "(1.5)", "(1000)x", "(٣)", "(1)" * 101],
)
def test_the_error_for_another_text_names_the_accepted_form(text: str) -> None:
    with pytest.raises(DelaysError, match=r"it takes \(delay\[,random\]\) in milliseconds"):
        parse_delays(text)


@pytest.mark.parametrize(
    ("text", "place"), [("", "it is empty"), ("  ", "it is empty"), ("(1000)x(2)", "at 'x(2)'"), ("x" * 30, f"at '{'x' * 20}'")]
)
def test_the_error_names_the_place_of_the_mistake(text: str, place: str) -> None:
    with pytest.raises(DelaysError) as refused:
        parse_delays(text)

    accepted = "it takes (delay[,random]) in milliseconds, once or more."
    assert f"{text!r} is not a ReconDelay, {place}: {accepted}" == str(refused.value)


@pytest.mark.parametrize("text", ["(0)", "(0,0)", "(1000,200)(0)"])
def test_a_ladder_that_would_end_in_trying_without_a_pause_is_refused(text: str) -> None:
    with pytest.raises(DelaysError, match="ends in a delay of 0"):
        parse_delays(text)


pairs = st.lists(st.tuples(st.integers(0, 999_999_999), st.integers(0, 999_999_999)), min_size=1, max_size=10)


@given(pairs.filter(lambda pairs: any(pairs[-1])), st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_an_attempt_waits_as_its_pair_says_and_the_last_pair_repeats(
    pairs: list[tuple[int, int]], attempt: int, random: float
) -> None:
    ladder = parse_delays("".join(f"({fixed},{chance})" for fixed, chance in pairs))

    fixed, chance = pairs[min(attempt, len(pairs)) - 1]
    assert pytest.approx((fixed + chance * random) / 1_000) == next_delay_s(attempt, random, ladder=ladder)


def test_without_a_limit_nothing_is_ever_given_up() -> None:
    assert 25 == next_delay_s(1_000_000, 0.0, lost_for_s=1e9)


@pytest.mark.parametrize(
    ("lost_for_s", "expected_s"), [(0.0, 1.0), (1799.0, 1.0), (1799.5, 0.5), (1800.0, None), (1801.0, None)]
)
def test_with_a_limit_the_last_wait_ends_there_and_then_it_is_over(lost_for_s: float, expected_s: float | None) -> None:
    assert expected_s == next_delay_s(1, 0.0, lost_for_s=lost_for_s, limit_s=1800.0)


def test_a_limit_of_0_gives_up_at_once() -> None:
    assert next_delay_s(1, 0.0, limit_s=0.0) is None


@pytest.mark.parametrize(("attempt", "fixed_s", "random_s"), ATTEMPTS, ids=lambda value: f"{IBM}: {value}")
def test_an_attempt_waits_its_fixed_part_and_a_random_part(attempt: int, fixed_s: float, random_s: float) -> None:
    assert [fixed_s, fixed_s + random_s / 2] == [delay_s(attempt, 0.0), delay_s(attempt, 0.5)]


@given(st.integers(1, 2**31), st.floats(0, 1, exclude_max=True))
def test_an_attempt_never_waits_longer_than_31_seconds_and_a_quarter(attempt: int, random: float) -> None:
    assert 1 <= delay_s(attempt, random) <= 31.25


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_an_attempt_waits_longer_than_the_one_before_until_the_ladder_ends(attempt: int, one: float, other: float) -> None:
    assert attempt >= len(LADDER) or delay_s(attempt, one) < delay_s(attempt + 1, other)


def test_the_ladder_can_be_replaced() -> None:
    assert [0.5, 0.5, 3.0] == [delay_s(attempt, 0.5, ((0, 1), (2, 2))) for attempt in (0, 1, 5)]
