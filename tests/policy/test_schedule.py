"""Schedules: when they fire, what a missed firing becomes, and the moments of cron expressions."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.app.schedules import Cron
from mqflow.policy.schedule import Begin, Fire, Interval, NotDue, ScheduleRule, ScheduleState, decide, key_of

HOUR = 3_600.0
NOON = datetime(2026, 11, 23, 12, tzinfo=ZoneInfo("UTC")).timestamp()
HOURLY = Cron("0 * * * *")


def state(last: float, rule: ScheduleRule = HOURLY) -> ScheduleState:
    return ScheduleState(schedule="s", rule=rule.text, last=last)


@pytest.mark.parametrize(
    ("last", "rule", "now", "expected"),
    [
        (NOON, HOURLY, NOON, NotDue(HOUR)),
        (NOON, HOURLY, NOON + 1_800, NotDue(1_800)),
        (NOON, HOURLY, NOON + HOUR, Fire(NOON + HOUR)),
        (NOON, HOURLY, NOON + HOUR + 0.5, Fire(NOON + HOUR)),
        # Several moments have passed: they are one firing, the latest.
        (NOON, HOURLY, NOON + 5 * HOUR + 7, Fire(NOON + 5 * HOUR)),
        (NOON, Interval(300.0), NOON + 299, NotDue(1.0)),
        (NOON, Interval(300.0), NOON + 300, Fire(NOON + 300)),
        (NOON, Interval(300.0), NOON + 1_000, Fire(NOON + 900)),
        # The sum of two floats can be a little less than one interval later.
        (NOON, Interval(0.1), NOON + 0.1, Fire(NOON + 0.1)),
        # Another worker's clock is ahead, and it has fired already.
        (NOON + HOUR, HOURLY, NOON + HOUR - 2, NotDue(HOUR + 2)),
        # A clock was wrong by more than the clocks of workers may differ.
        (NOON + 48 * HOUR, HOURLY, NOON, Begin()),
    ],
)
def test_the_next_step_of_a_schedule(last: float, rule: ScheduleRule, now: float, expected: object) -> None:
    assert expected == decide(state(last, rule), rule, now)


def test_a_schedule_with_another_rule_begins_again() -> None:
    assert Begin() == decide(state(NOON, Interval(300.0)), HOURLY, NOON + 24 * HOUR)


def test_schedules_of_other_applications_have_other_keys() -> None:
    keys = {key_of("orders", "nightly"), key_of("claims", "nightly"), key_of("orders", "weekly"), key_of("ordersn", "ightly")}

    assert [24] * 4 == [len(key) for key in keys]


@pytest.mark.parametrize(
    ("expression", "timezone", "after", "expected"),
    [
        ("0 6 * * MON-FRI", "Europe/Berlin", "2026-11-20T06:00+01:00", "2026-11-23T06:00+01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00"),  # 02:30 does not exist
        ("0 3 * * *", "Europe/Berlin", "2026-10-24T03:00+02:00", "2026-10-25T03:00+01:00"),
        ("*/15 * * * *", "UTC", "2026-11-23T12:07+00:00", "2026-11-23T12:15+00:00"),
    ],
)
def test_a_cron_expression_follows_the_clock_of_its_time_zone(
    expression: str, timezone: str, after: str, expected: str
) -> None:
    found = Cron(expression, timezone).next_after(datetime.fromisoformat(after).timestamp())

    assert datetime.fromisoformat(expected) == datetime.fromtimestamp(found, ZoneInfo(timezone))


@given(
    expression=st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 6 * * MON-FRI", "0 0 1 * *"]),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    since=st.floats(NOON - 365 * 24 * HOUR, NOON),
    later=st.floats(0, 72 * HOUR),
)
def test_the_latest_moment_is_due_and_has_no_moment_between_it_and_now(
    expression: str, timezone: str, since: float, later: float
) -> None:
    rule, now = Cron(expression, timezone), since + later
    first = rule.next_after(since)
    assert first > since
    if first > now:
        return

    latest = rule.latest(since, now)

    assert first <= latest <= now
    assert rule.next_after(latest) > now


@pytest.mark.parametrize(("every_s", "text"), [(60.0, "every 60 s"), (3.3, "every 3.3 s"), (1_036_801.0, "every 1036801 s")])
def test_an_interval_that_has_changed_by_a_second_has_another_text(every_s: float, text: str) -> None:
    assert text == Interval(every_s).text


@given(every=st.integers(1, 10_000), since=st.floats(0, 2e9), later=st.floats(0, 1e6))
def test_an_interval_fires_at_whole_numbers_of_intervals_after_the_last_firing(every: int, since: float, later: float) -> None:
    rule, now = Interval(float(every)), since + later
    if rule.next_after(since) > now:
        return

    latest = rule.latest(since, now)

    assert latest <= now + 1e-3
    assert now < latest + every + 1e-3
    assert pytest.approx(round((latest - since) / every), abs=1e-6) == (latest - since) / every
