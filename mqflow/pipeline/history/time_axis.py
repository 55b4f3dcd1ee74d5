"""Decides the marks and the bars of an axis of time, which can be six minutes or a year long. The functions are pure."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

__all__ = ("Axis", "Bar", "axis", "bars", "step_s")

_TICKS_MAX: Final = 8
_BARS_MAX: Final = 60
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S
_DAY_S: Final = 24 * _HOUR_S
_MONDAY_S: Final = 4 * _DAY_S
"""The first Monday of 1970."""
_EVEN_S: Final = (
    *(minutes * _MINUTE_S for minutes in (1, 2, 5, 10, 15, 30)), *(hours * _HOUR_S for hours in (1, 2, 3, 6, 12)),
    _DAY_S, 2 * _DAY_S, 7 * _DAY_S, 14 * _DAY_S,
)  # fmt: skip
"""The distances between the marks on an axis of a short time, in seconds."""
_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120)
"""The distances on an axis of a long time, in months; for a longer time, they are whole decades."""
_YEAR_MONTHS: Final = 12
_BARS_S: Final = (1, 2, 5, 10, 15, 30, *_EVEN_S, 28 * _DAY_S)
"""The lengths of the steps of time that have a bar each, in seconds."""


class Axis(Struct, frozen=True, kw_only=True):
    """An axis of time that begins at the first event and ends at the last."""

    first: datetime
    last: datetime
    #: In order, at most nine, and no two with the same text.
    marks: tuple[datetime, ...]
    #: The format of the texts of the marks, for `strftime`.
    words: str

    def place(self, at: datetime) -> float:
        """Return the place of a time: 0 for the first event, 1 for the last."""
        length = (self.last - self.first).total_seconds()
        return (at - self.first).total_seconds() / length if length else 0.0


class Bar(Struct, frozen=True):
    """A step of time as a part of an axis, and what happened in it."""

    #: From 0 to 1, as `Axis.place` gives it.
    left: float
    right: float
    count: int
    #: The first and the last microsecond.
    start: datetime
    end: datetime


def axis(first: datetime, last: datetime) -> Axis:
    """Return the axis from `first` to `last`; both have a time zone."""
    length_s = (last - first).total_seconds()
    if length_s > _TICKS_MAX * _EVEN_S[-1]:
        marks, words = _in_months(first, last)
        return Axis(first=first, last=last, marks=marks, words=words)
    every_s = next(each for each in _EVEN_S if length_s <= _TICKS_MAX * each)
    from_s = _MONDAY_S if every_s % (7 * _DAY_S) == 0 else 0
    at_s = from_s + math.ceil((first.timestamp() - from_s) / every_s) * every_s
    marks = tuple(datetime.fromtimestamp(each, UTC) for each in range(at_s, math.floor(last.timestamp()) + 1, every_s))
    is_one_day = first.astimezone(UTC).date() == last.astimezone(UTC).date()
    words = "%d %b" if every_s >= _DAY_S else "%H:%M" if is_one_day else "%d %b %H:%M"
    return Axis(first=first, last=last, marks=marks, words=words)


def step_s(first: datetime, last: datetime) -> int:
    """Return the length of the steps with a bar each, in seconds: at most 61 steps, as short as possible."""
    length_s = (last - first).total_seconds()
    longest = _BARS_S[-1]
    return next((each for each in _BARS_S if length_s <= _BARS_MAX * each), math.ceil(length_s / _BARS_MAX / longest) * longest)


def bars(along: Axis, counts: Mapping[int, int], every_s: int) -> tuple[Bar, ...]:
    """Return a bar for each step with events, in order.

    `counts` maps the number of a step to the number of its events. The number of a step is the count of whole steps from 1970
    to its start. No bar begins before the first event or ends after the last event.
    """
    made = []
    for number, count in sorted(counts.items()):
        start, end = (datetime.fromtimestamp(each * every_s, UTC) for each in (number, number + 1))
        left, right = along.place(max(start, along.first)), along.place(min(end, along.last))
        within = max(start, along.first), min(end - _MICROSECOND, along.last)
        made.append(Bar(left, right if along.first < along.last else 1.0, count, *within))
    return tuple(made)


def _in_months(first: datetime, last: datetime) -> tuple[tuple[datetime, ...], str]:
    """Return the marks on an axis of a long time, each at the beginning of a month."""
    start, end = (each.year * _YEAR_MONTHS + each.month - 1 for each in (first.astimezone(UTC), last.astimezone(UTC)))
    decades = math.ceil((end - start) / _TICKS_MAX / _MONTHS[-1])
    every = next((each for each in _MONTHS if end - start <= _TICKS_MAX * each), _MONTHS[-1] * decades)
    months = range(math.ceil((start + 1) / every) * every, end + 1, every)
    marks = tuple(datetime(month // _YEAR_MONTHS, month % _YEAR_MONTHS + 1, 1, tzinfo=UTC) for month in months)
    return marks, "%Y" if every >= _YEAR_MONTHS else "%b %Y"
