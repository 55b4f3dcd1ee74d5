"""Pauses before a redelivery grow from the first failure on, have a random part, and are bounded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.poison.redelivery_delay import REDELIVERY, REFUSED, Pace, pause_s

LONGEST = 0.0  # the random number that leaves a pause unchanged

seconds = st.floats(0.001, 60)
paces = st.builds(
    lambda first_s, factor, more_s, jitter: Pace(first_s=first_s, factor=factor, max_s=first_s + more_s, jitter=jitter),
    seconds,
    st.floats(1, 1_000_000),
    st.floats(0, 86_400),
    st.floats(0, 1),
)
counts = st.integers(1, 20) | st.integers(1, 2**31 - 1)
chances = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(
    ("backout_count", "expected_s"), [(1, 0.05), (2, 0.1), (3, 0.2), (4, 0.4), (10, 25.6), (11, 30.0), (2**31 - 1, 30.0)]
)
def test_by_default_a_pause_doubles_from_50_ms_up_to_30_s(backout_count: int, expected_s: float) -> None:
    assert pytest.approx(expected_s) == pause_s(REDELIVERY, backout_count, LONGEST)


@pytest.mark.parametrize(("backout_count", "expected_s"), [(1, 1.0), (2, 2.0), (6, 32.0), (7, 60.0)])
def test_by_default_a_message_that_no_queue_takes_is_tried_again_after_a_second_and_at_least_every_minute(
    backout_count: int, expected_s: float
) -> None:
    assert pytest.approx(expected_s) == pause_s(REFUSED, backout_count, LONGEST)


def test_chance_takes_off_up_to_the_jitter_s_part_of_a_pause() -> None:
    pace = Pace(first_s=1.0, factor=2.0, max_s=8.0, jitter=0.5)

    assert [1.0, 0.75] == [pause_s(pace, 1, 0.0), pause_s(pace, 1, 0.5)]


def test_a_factor_of_one_keeps_pauses_equal() -> None:
    pace = Pace(first_s=2.0, factor=1.0, max_s=60.0, jitter=0.0)

    assert [2.0, 2.0] == [pause_s(pace, 1, LONGEST), pause_s(pace, 1_000_000, LONGEST)]


def test_a_factor_given_as_a_whole_number_is_no_endless_computation() -> None:
    assert 30.0 == pause_s(Pace(factor=2), 2**31 - 1, LONGEST)


def test_the_step_that_would_reach_the_longest_pause_exactly_gives_it() -> None:
    pace = Pace(first_s=1.0, factor=2.0, max_s=8.0, jitter=0.0)

    assert [4.0, 8.0, 8.0] == [pause_s(pace, count, LONGEST) for count in (3, 4, 5)]


@pytest.mark.parametrize("backout_count", [0, -1])
def test_there_is_no_pause_before_anything_failed(backout_count: int) -> None:
    assert pause_s(REDELIVERY, backout_count, LONGEST) == 0


def test_a_pace_that_starts_with_no_pause_never_pauses() -> None:
    assert pause_s(Pace(first_s=0.0), 1_000, LONGEST) == 0


@given(paces, counts, chances)
def test_a_pause_is_never_longer_than_the_pace_allows(pace: Pace, count: int, random: float) -> None:
    assert pause_s(pace, count, random) <= pace.max_s


@given(paces, counts, chances)
def test_a_message_that_failed_never_spins(pace: Pace, count: int, random: float) -> None:
    assert pause_s(pace, count, random) > 0


@given(paces, counts, chances)
def test_chance_never_takes_off_more_than_the_jitter(pace: Pace, count: int, random: float) -> None:
    longest_s = pause_s(pace, count, LONGEST)

    assert longest_s * (1 - pace.jitter) <= pause_s(pace, count, random) <= longest_s


@given(paces, counts, st.integers(1, 1_000))
def test_pauses_never_get_shorter_as_failures_repeat(pace: Pace, count: int, more: int) -> None:
    assert pause_s(pace, count, LONGEST) <= pause_s(pace, count + more, LONGEST)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"first_s": -0.1}, "first_s is 0 or more seconds"),
        ({"first_s": float("nan")}, "first_s is 0 or more seconds"),
        ({"factor": 0.5}, "factor is 1 or more"),
        ({"factor": float("inf")}, "factor is 1 or more"),
        ({"first_s": 2.0, "max_s": 1.0}, "max_s is first_s or more seconds"),
        ({"max_s": float("inf")}, "max_s is first_s or more seconds"),
        ({"jitter": 1.5}, "jitter is between 0 and 1"),
        ({"jitter": -0.5}, "jitter is between 0 and 1"),
        ({"max_s": "30"}, "each field is a number"),
    ],
)
def test_the_error_for_an_invalid_pace_names_the_accepted_values(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"is not a valid pace: {expected}[.]$"):
        Pace(**values)
