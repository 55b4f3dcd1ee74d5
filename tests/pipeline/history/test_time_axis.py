"""The marks and bars of an axis of time: it begins at the first event, and fits six minutes and a year."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.pipeline.history.time_axis import Bar, axis, bars, step_s

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("2026-01-01T12:00:00+00:00", ["12:00"]),
        ("2026-01-01T12:06:00+00:00", [f"12:{minute:02}" for minute in range(7)]),
        ("2026-01-01T13:30:00+00:00", ["12:00", "12:15", "12:30", "12:45", "13:00", "13:15", "13:30"]),
        ("2026-01-02T09:00:00+00:00", [f"{at} Jan {hour:02}:00" for at, hour in zip(
            ("01", "01", "01", "01", "02", "02", "02", "02"), (12, 15, 18, 21, 0, 3, 6, 9), strict=True)]),
        ("2026-01-08T12:00:00+00:00", [f"{day:02} Jan" for day in range(2, 9)]),
        ("2026-02-15T00:00:00+00:00", ["05 Jan", "12 Jan", "19 Jan", "26 Jan", "02 Feb", "09 Feb"]),
        ("2026-12-31T00:00:00+00:00", ["Mar 2026", "May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]),
        ("2031-06-30T00:00:00+00:00", ["2027", "2028", "2029", "2030", "2031"]),
        ("9998-12-31T00:00:00+00:00", [f"{millennium}000" for millennium in range(3, 10)]),  # a clock that is wrong
    ],
)  # fmt: skip
def test_an_axis_of_time_fits_a_run_of_six_minutes_and_of_a_year(last: str, said: list[str]) -> None:
    along = axis(START, datetime.fromisoformat(last))

    assert said == [mark.strftime(along.words) for mark in along.marks]


@given(first=st.integers(0, 2**32), length=st.integers(0, 2**37) | st.integers(0, 2**31) | st.integers(0, 100_000))
def test_an_axis_of_any_time_has_few_marks_and_no_two_alike(first: int, length: int) -> None:
    start, end = (datetime.fromtimestamp(each, UTC) for each in (first, first + length))

    along = axis(start, end)

    assert len(along.marks) <= 9
    assert len(along.marks) == len({mark.strftime(along.words) for mark in along.marks})
    assert all(start <= mark <= end for mark in along.marks)
    assert length <= 61 * step_s(start, end)


@pytest.mark.parametrize(
    ("length", "every_s"),
    [
        pytest.param(timedelta(0), 1, id="one event"),
        pytest.param(timedelta(minutes=1), 1, id="a minute"),
        pytest.param(timedelta(minutes=6), 10, id="six minutes"),
        pytest.param(timedelta(hours=1), MINUTE, id="an hour"),
        pytest.param(timedelta(days=1), 30 * MINUTE, id="a day"),
        pytest.param(timedelta(weeks=8), DAY, id="eight weeks"),
        pytest.param(timedelta(days=365), 7 * DAY, id="a year"),
        pytest.param(timedelta(days=3_650), 84 * DAY, id="ten years"),
    ],
)
def test_a_bar_is_as_short_as_sixty_bars_allow(length: timedelta, every_s: int) -> None:
    assert every_s == step_s(START, START + length)


def test_the_first_bar_begins_at_the_first_event_and_the_last_ends_at_the_last() -> None:
    first = START + timedelta(seconds=15)
    along = axis(first, START + timedelta(seconds=115))
    noon = int(START.timestamp()) // 10

    found = bars(along, {noon + 1: 3, noon + 11: 5}, 10)

    second, microsecond = timedelta(seconds=1), timedelta(microseconds=1)
    ends = START + 20 * second - microsecond, along.last
    assert (Bar(0.0, 0.05, 3, first, ends[0]), Bar(0.95, 1.0, 5, START + 110 * second, ends[1])) == found


def test_a_single_event_is_one_bar_over_the_whole_axis() -> None:
    assert [Bar(0.0, 1.0, 7, START, START)] == list(bars(axis(START, START), {int(START.timestamp()): 7}, 1))
