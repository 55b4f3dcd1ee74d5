"""Failure groups week by week as tables of cases: comparison with the week before, owners, order, and the edges of weeks."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.pipeline.history.weekly_groups import (
    WEEK,
    AttemptsOf,
    Counted,
    Failure,
    Selection,
    SetAside,
    Span,
    owner_of,
    weekly_groups,
)

END = datetime(2026, 1, 31, 12, tzinfo=UTC)
SPAN = Span(END, 3)
PRICE = Failure(queue="ORDERS.IN", handler="book", exception="ValueError")
STOCK = Failure(queue="STOCK.IN", handler="count", exception="KeyError")


def counted(failure: Failure, week: int, messages: int) -> Counted:
    at = END - week * WEEK
    return Counted(failure=failure, week=week, messages=messages, first_at=at - timedelta(hours=messages), last_at=at)


@pytest.mark.parametrize(
    ("weeks", "this_week", "before", "difference"),
    [
        pytest.param({0: 5, 1: 2}, 5, 2, 3, id="more than in the week before"),
        pytest.param({0: 1, 1: 4}, 1, 4, -3, id="fewer"),
        pytest.param({0: 4}, 4, 0, 4, id="new in this week"),
        pytest.param({1: 4}, 0, 4, -4, id="gone in this week"),
        pytest.param({2: 9}, 0, 0, 0, id="only earlier"),
    ],
)
def test_a_group_is_compared_with_the_week_before(weeks: dict[int, int], this_week: int, before: int, difference: int) -> None:
    [group] = weekly_groups([counted(PRICE, *each) for each in weeks.items()], SPAN, {}, {})

    assert (this_week, before, difference) == (group.this_week, group.week_before, group.difference)


def test_a_span_of_one_week_has_no_week_before() -> None:
    [group] = weekly_groups([counted(PRICE, 0, 5)], Span(END, 1), {}, {})

    assert (5, 0, 5) == (group.this_week, group.week_before, group.difference)


def test_the_group_with_the_most_messages_of_this_week_is_first() -> None:
    groups = weekly_groups([counted(PRICE, 0, 1), counted(PRICE, 1, 99), counted(STOCK, 0, 2)], SPAN, {}, {})

    assert [STOCK, PRICE] == [group.failure for group in groups]


def test_messages_that_are_set_aside_belong_to_their_group() -> None:
    aside = {STOCK: SetAside(2, END - WEEK)}

    groups = weekly_groups([counted(PRICE, 0, 3), counted(STOCK, 0, 2)], SPAN, {}, aside)

    assert [None, SetAside(2, END - WEEK)] == [group.aside for group in groups]


@pytest.mark.parametrize(
    ("queue", "owner"),
    [
        pytest.param("ORDERS.IN", "sales", id="a prefix"),
        pytest.param("ORDERS.EU.IN", "sales Europe", id="the longest prefix"),
        pytest.param("STOCK.IN", "", id="no prefix"),
    ],
)
def test_the_longest_prefix_names_the_owner(queue: str, owner: str) -> None:
    assert owner == owner_of(queue, {"ORDERS.": "sales", "ORDERS.EU.": "sales Europe"})


def test_the_owner_of_a_dead_letter_is_that_of_its_target() -> None:
    lost = Failure(queue="DEAD.LETTERS", reason="MQRC_Q_FULL", for_queue="ORDERS.IN")

    [group] = weekly_groups([counted(lost, 0, 1)], SPAN, {"ORDERS.": "sales", "DEAD.": "nobody"}, {})

    assert "sales" == group.owner


@pytest.mark.parametrize(
    ("before_end", "week"),
    [
        pytest.param(timedelta(0), 0, id="the end itself"),
        pytest.param(WEEK - timedelta(microseconds=1), 0, id="the first moment of this week"),
        pytest.param(WEEK, 1, id="the end of the week before"),
        pytest.param(3 * WEEK - timedelta(microseconds=1), 2, id="the first moment of the span"),
    ],
)
def test_each_time_is_in_one_week_and_inside_its_bounds(before_end: timedelta, week: int) -> None:
    at = END - before_end

    assert week == SPAN.week_of(at)
    after, until = SPAN.bounds(week)
    assert after < at <= until
    assert SPAN.since < at


@pytest.mark.parametrize("what", [PRICE, AttemptsOf(queue="Q", handler="h", attempt_no=2, has_succeeded=True)])
def test_a_number_keeps_its_selection_in_an_address(what: Failure | AttemptsOf) -> None:
    selection = Selection(what=what, span=SPAN, week=1)

    assert selection == msgspec.json.decode(msgspec.json.encode(selection), type=Selection)


@pytest.mark.parametrize(
    "change", [{"week": -1}, {"span": {"until": "2026-01-31T12:00:00", "weeks": 1}}, {"span": {"until": END, "weeks": 10**9}}]
)
def test_an_address_with_an_impossible_selection_is_refused(change: dict[str, object]) -> None:
    fields = msgspec.to_builtins(Selection(what=PRICE, span=SPAN)) | change

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(fields), type=Selection)


@given(parts=st.lists(st.builds(counted, st.sampled_from([PRICE, STOCK]), st.integers(0, 2), st.integers(1, 50)), max_size=20))
def test_the_groups_of_any_counts_lose_and_double_no_message(parts: list[Counted]) -> None:
    plain: dict[Failure, Counter[int]] = defaultdict(Counter)
    for part in parts:
        plain[part.failure][part.week] += part.messages

    groups = weekly_groups(parts, SPAN, {}, {})

    assert {failure: [count[2], count[1], count[0]] for failure, count in plain.items()} == {
        group.failure: list(group.weeks) for group in groups
    }
    assert [group.this_week for group in groups] == sorted((group.this_week for group in groups), reverse=True)
    for group in groups:
        own = [part for part in parts if part.failure == group.failure]
        assert (min(part.first_at for part in own), max(part.last_at for part in own)) == (group.first_at, group.last_at)
