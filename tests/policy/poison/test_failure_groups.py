"""The groups of failed messages: which messages belong together, and the numbers, times and samples of a group."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.failure_groups import (
    FailedMessage,
    FailureGroup,
    Part,
    Trend,
    failed_message,
    failure_groups,
    group_name,
)
from mqflow.policy.poison.moved_message import Why, folder, to_backout_queue

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
WHY = Why(
    queue="ORDERS.IN", outcome="failed", error="ValueError", text="no order 7", frame="shop.py:12 in book", handler="book"
)


def failed(number: int, *, minutes_ago: float | None = 10, why: Why = WHY, has_reason: bool = True) -> FailedMessage:
    at = None if minutes_ago is None else NOW - timedelta(minutes=minutes_ago)
    return FailedMessage(message_id=bytes([number]) * 24, why=why, at=at, has_reason=has_reason)


def with_why(**fields: Any) -> Why:  # Any: fields of several types
    return replace(WHY, **fields)


def grouped(*messages: FailedMessage, parts: tuple[Part, ...] | None = None, samples_max: int = 3) -> tuple[FailureGroup, ...]:
    chosen = {} if parts is None else {"parts": parts}
    return failure_groups(messages, now=NOW, samples_max=samples_max, **chosen)


@pytest.mark.parametrize(
    "other",
    [
        {"queue": "OTHER.IN"},
        {"reason": 2053},
        {"outcome": "undecodable"},
        {"error": "KeyError"},
        {"frame": "shop.py:13 in book"},
    ],
)
def test_messages_with_another_reason_are_another_group(other: dict[str, object]) -> None:
    groups = grouped(failed(1), failed(2), failed(3, why=with_why(**other)))

    assert [2, 1] == [group.messages for group in groups]


@pytest.mark.parametrize("other", [{"text": "no order 8"}, {"handler": "later"}, {"count": 3}])
def test_the_text_of_an_exception_makes_no_group_of_its_own(other: dict[str, object]) -> None:
    [group] = grouped(failed(1), failed(2, why=with_why(**other)))

    assert 2 == group.messages


def test_a_message_has_the_name_of_its_group() -> None:
    other = failed(2, why=with_why(queue="OTHER.IN"))
    names = {group_name(each, now=NOW) for each in (failed(1), other)}

    assert names == {group.name for group in grouped(failed(1), other)}
    assert 2 == len(names)


def test_a_group_has_the_first_and_the_last_time_of_its_messages() -> None:
    [group] = grouped(
        failed(1, minutes_ago=5), failed(2, minutes_ago=90), failed(3, minutes_ago=None), failed(4, minutes_ago=7)
    )

    assert (NOW - timedelta(minutes=90), NOW - timedelta(minutes=5)) == (group.first_at, group.last_at)
    assert 4 == group.messages


def test_the_samples_are_the_newest_messages() -> None:
    ages = (5, 90, None, 1, 7)

    [group] = grouped(*(failed(number, minutes_ago=age) for number, age in enumerate(ages)), samples_max=2)

    assert [3, 0] == [sample.message_id[0] for sample in group.samples]


def test_groups_of_one_size_begin_with_the_newest() -> None:
    groups = grouped(failed(1, minutes_ago=60), failed(2, minutes_ago=1, why=with_why(error="KeyError")))

    assert ["KeyError", "ValueError"] == [group.exception for group in groups]


@pytest.mark.parametrize(
    ("minutes_ago", "age"),
    [
        (0, "the last minute"),
        (1, "the last hour"),
        (60, "the last day"),
        (24 * 60, "the last week"),
        (7 * 24 * 60, "the last 30 days"),
        (30 * 24 * 60, "older"),
        (-5, "the last minute"),  # the clock of another machine
        (None, ""),
    ],
)
def test_an_age_is_the_smallest_range_with_the_message(minutes_ago: float | None, age: str) -> None:
    [group] = grouped(failed(1, minutes_ago=minutes_ago), parts=(Part.AGE,))

    assert age == group.age


@pytest.mark.parametrize(
    ("minutes_ago", "window", "counts"),
    [
        pytest.param((0, 0.5, 1, 23.9), timedelta(minutes=1), {0: 2, 1: 1, 23: 1}, id="24 minutes"),
        pytest.param((0, 4.9, 24.5, 119), timedelta(minutes=5), {0: 2, 4: 1, 23: 1}, id="more than 24 minutes"),
        pytest.param((3, 59, 60, 120), timedelta(hours=1), {0: 2, 1: 1, 2: 1}, id="two hours"),
        pytest.param((0, 24 * 60), timedelta(hours=6), {0: 1, 4: 1}, id="a day"),
        pytest.param((30, 6 * 24 * 60), timedelta(days=1), {0: 1, 6: 1}, id="six days"),
        pytest.param((24 * 60, 24 * 24 * 60), timedelta(days=7), {0: 1, 3: 1}, id="24 days"),
        pytest.param((5, 24 * 7 * 24 * 60), timedelta(days=7), {0: 1}, id="24 weeks: in no window"),
        pytest.param((-5, None, 1), timedelta(minutes=1), {0: 1, 1: 1}, id="the clock of another machine, and no time"),
    ],
)
def test_a_trend_has_the_shortest_windows_that_cover_the_group(
    minutes_ago: tuple[float | None, ...], window: timedelta, counts: dict[int, int]
) -> None:
    for ages in (minutes_ago, minutes_ago[::-1]):
        [group] = grouped(*(failed(number, minutes_ago=age) for number, age in enumerate(ages)))

        assert Trend(window, tuple(counts.get(ago, 0) for ago in reversed(range(24)))) == group.trend


def test_a_group_without_a_time_has_no_trend() -> None:
    assert [None] == [group.trend for group in grouped(failed(1, minutes_ago=None))]


def test_a_part_that_was_not_chosen_has_no_value() -> None:
    [group] = grouped(failed(1), failed(2, why=with_why(error="KeyError")), parts=(Part.HANDLER,))

    assert ("book", 2) == (group.handler, group.messages)
    assert [None] * 6 == [group.queue, group.reason, group.outcome, group.exception, group.frame, group.age]


def test_one_reason_from_the_ledger_marks_its_whole_group() -> None:
    assert [True] == [group.has_reason for group in grouped(failed(1))]
    assert [False] == [group.has_reason for group in grouped(failed(1), failed(2, has_reason=False), failed(3))]


def test_no_message_is_no_group() -> None:
    assert () == grouped()


def test_a_moved_message_gives_its_reason_and_the_time_of_its_move() -> None:
    at = NOW - timedelta(minutes=3)
    descriptor, data = to_backout_queue(MessageDescriptor(), b"body", folders=(folder(with_why(at=at)),))

    message = failed_message(descriptor, data)

    assert (at, "ValueError") == (message.at, message.why.error)


def test_a_time_without_a_zone_is_utc() -> None:
    descriptor, data = to_backout_queue(MessageDescriptor(), b"", folders=(folder(with_why(at=NOW.replace(tzinfo=None))),))

    assert NOW == failed_message(descriptor, data).at


def test_a_message_without_a_reason_has_the_time_of_its_put() -> None:
    message = failed_message(MessageDescriptor(put_date="20261123", put_time="11000000"), b"body")

    assert (Why(), NOW - timedelta(hours=1)) == (message.why, message.at)
    assert failed_message(MessageDescriptor(), b"").at is None
