"""The rate limit: when the next message may be got, and how many messages any window of time can have."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.rate_limit import RateLimit, available, taken, wait_s

SECOND = 100.0
START = float("-inf")


@pytest.mark.parametrize(
    ("limit", "got_at", "now", "expected"),
    [
        (RateLimit(10), [], SECOND, 0.0),
        (RateLimit(10), [SECOND], SECOND, 0.1),
        (RateLimit(10), [SECOND], SECOND + 0.04, 0.06),
        (RateLimit(10), [SECOND], SECOND + 5, 0.0),
        (RateLimit(1, per_s=60), [SECOND], SECOND + 20, 40.0),
        (RateLimit(10, burst=3), [SECOND, SECOND], SECOND, 0.0),
        (RateLimit(10, burst=3), [SECOND, SECOND, SECOND], SECOND, 0.1),
        (RateLimit(10, burst=3), [SECOND, SECOND, SECOND], SECOND + 0.1, 0.0),
    ],
)
def test_the_wait_for_the_next_message(limit: RateLimit, got_at: list[float], now: float, expected: float) -> None:
    due_at = START
    for moment in got_at:
        due_at = taken(limit, due_at, moment, 1)

    assert expected == pytest.approx(wait_s(limit, due_at, now))


@given(
    limit=st.builds(RateLimit, st.integers(1, 50), per_s=st.sampled_from([0.5, 1.0, 60.0]), burst=st.integers(1, 5)),
    gets=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 9)), min_size=2, max_size=40),
)
def test_no_window_of_time_has_more_messages_than_the_limit_says(limit: RateLimit, gets: list[tuple[float, int]]) -> None:
    now, due_at = SECOND, START
    got_at: list[float] = []
    for pause_s, wanted in gets:
        now += pause_s
        now += wait_s(limit, due_at, now)
        count = min(wanted, available(limit, due_at, now))
        assert count >= 1
        due_at = taken(limit, due_at, now, count)
        got_at += [now] * count

    for first, begin in enumerate(got_at):
        for last in range(first, len(got_at)):
            most = limit.burst + (got_at[last] - begin) / limit.interval_s
            assert last - first + 1 <= most + 1e-3


@given(limit=st.builds(RateLimit, st.integers(1, 50), burst=st.integers(1, 5)), count=st.integers(1, 100))
def test_a_full_queue_is_handled_at_the_rate(limit: RateLimit, count: int) -> None:
    now, due_at = SECOND, START
    for _ in range(count):
        now += wait_s(limit, due_at, now)
        due_at = taken(limit, due_at, now, 1)

    assert pytest.approx(max(0, count - limit.burst) * limit.interval_s, abs=1e-6) == now - SECOND


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (partial(RateLimit, 0), "messages is a number, 1 or more"),
        (partial(RateLimit, True), "messages is a number, 1 or more"),
        (partial(RateLimit, 1, per_s=0), "per_s is more than 0 seconds"),
        (partial(RateLimit, 1, burst=0), "burst is a number, 1 or more"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(make: "partial[RateLimit]", said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
