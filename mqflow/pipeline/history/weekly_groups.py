"""Decides the rows of the history page: failure groups week by week, retries by attempt, and owners of queues.

The functions are pure: they take counts and return records. This file knows no table and no clock.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

__all__ = (
    "WEEK",
    "WEEKS_MAX",
    "AttemptsOf",
    "Counted",
    "FailedIn",
    "Failure",
    "RetryStep",
    "Selection",
    "SetAside",
    "Span",
    "Unended",
    "UnendedOf",
    "WeeklyGroup",
    "owner_of",
    "weekly_groups",
)

WEEK: Final = timedelta(days=7)
WEEKS_MAX: Final = 530
"""The most weeks of a span: ten years."""


class Span(Struct, frozen=True):
    """Weeks of seven days. The last week ends at `until`, so each comparison is of two weeks of the same length."""

    until: Annotated[datetime, Meta(tz=True)]
    weeks: Annotated[int, Meta(ge=1, le=WEEKS_MAX)]

    @property
    def since(self) -> datetime:
        """The time after which the first week begins. An event at this very time is older than the span."""
        return self.until - self.weeks * WEEK

    def bounds(self, week: int) -> tuple[datetime, datetime]:
        """Return the times after which the week begins and at which it ends. Week 0 is the last."""
        return self.until - (week + 1) * WEEK, self.until - week * WEEK

    def week_of(self, at: datetime) -> int:
        """Return the number of the week that has this time: 0 for the last one, 1 for the one before."""
        return (self.until - at) // WEEK


class Failure(Struct, frozen=True, kw_only=True, tag=True):
    """The facts that all failures of a group share; a fact that the tables lack is empty."""

    #: The queue of the handler that failed; of dead letters, the dead-letter queue.
    queue: str
    handler: str = ""
    #: The name of the reason of the MQDLH: MQRC_Q_FULL.
    reason: str = ""
    #: DestQName of the MQDLH.
    for_queue: str = ""
    exception: str = ""
    #: `exc_fingerprint` of the record.
    fingerprint: str = ""

    @property
    def is_dead_letter(self) -> bool:
        """True if the failures are dead letters; all other failures have an exception."""
        return not self.exception

    @property
    def name(self) -> str:
        """16 hexadecimal digits, the same in every process."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:16]


class AttemptsOf(Struct, frozen=True, kw_only=True, tag=True):
    """The deliveries of one handler with one attempt number; with `has_succeeded`, only those that succeeded."""

    queue: str
    handler: str
    attempt_no: Annotated[int, Meta(ge=-(2**31), lt=2**31)]
    has_succeeded: bool = False


class FailedIn(Struct, frozen=True, tag=True):
    """The failed deliveries of one bar of the axis: those after the time `after`, up to the time `until`."""

    after: Annotated[datetime, Meta(tz=True)]
    until: Annotated[datetime, Meta(tz=True)]


class UnendedOf(Struct, frozen=True, kw_only=True, tag=True):
    """The messages that this handler got before the end of the span, and that have no end in the tables."""

    queue: str
    handler: str


class Unended(Struct, frozen=True):
    """The number of a handler's messages without an end, and when the handler first got the oldest; None if that is unknown."""

    what: UnendedOf
    messages: int
    oldest_at: datetime | None


class Selection(Struct, frozen=True, kw_only=True):
    """The messages that a number on the page counts."""

    what: Failure | AttemptsOf | FailedIn | UnendedOf
    span: Span
    #: A week of the span; None for the whole span.
    week: Annotated[int, Meta(ge=0, lt=WEEKS_MAX)] | None = None
    #: True if only messages that are set aside count; see `SetAside`.
    is_aside: bool = False

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """The times after which the selection begins and at which it ends."""
        if isinstance(self.what, FailedIn):
            return self.what.after, self.what.until
        return (self.span.since, self.span.until) if self.week is None else self.span.bounds(self.week)


class Counted(Struct, frozen=True, kw_only=True):
    """The messages that failed alike in one week."""

    failure: Failure
    week: int
    messages: int
    first_at: datetime
    last_at: datetime


class SetAside(Struct, frozen=True):
    """The messages of a group that ended as poison and were not redriven since, and when the first of them ended."""

    messages: int
    since: datetime


class WeeklyGroup(Struct, frozen=True, kw_only=True):
    """A failure group over the weeks of a span."""

    failure: Failure
    owner: str
    #: The messages that failed in each week, the oldest week first.
    weeks: tuple[int, ...]
    first_at: datetime
    last_at: datetime
    #: None if no message is set aside, or if the tables do not show it.
    aside: SetAside | None = None

    @property
    def this_week(self) -> int:
        """The messages that failed in the last week."""
        return self.weeks[-1]

    @property
    def week_before(self) -> int:
        """The messages that failed in the week before the last; 0 for a span of one week."""
        return self.weeks[-2] if len(self.weeks) > 1 else 0

    @property
    def difference(self) -> int:
        """The messages of the last week minus the messages of the week before."""
        return self.this_week - self.week_before


class RetryStep(Struct, frozen=True, kw_only=True):
    """One attempt number of one handler: the deliveries with this number, and how many of them succeeded."""

    queue: str
    handler: str
    attempt_no: int
    entered: int
    succeeded: int

    @property
    def percent(self) -> float:
        """The percentage of the deliveries that succeeded."""
        return 100 * self.succeeded / self.entered


class _Gathered(Struct):
    weeks: list[int]
    first_at: datetime
    last_at: datetime


def weekly_groups(
    counted: Iterable[Counted], span: Span, owners: Mapping[str, str], aside: Mapping[Failure, SetAside]
) -> tuple[WeeklyGroup, ...]:
    """Return a row for each failure, sorted by messages of this week, then of all weeks (most first), then by newest failure.

    `counted` can have several entries for one failure and week, if no message is in two of these entries. `owner_of` explains
    `owners`.
    """
    found: dict[Failure, _Gathered] = {}
    for each in counted:
        row = found.setdefault(each.failure, _Gathered([0] * span.weeks, each.first_at, each.last_at))
        row.weeks[-1 - each.week] += each.messages
        row.first_at, row.last_at = min(row.first_at, each.first_at), max(row.last_at, each.last_at)
    groups = (
        WeeklyGroup(
            failure=failure,
            owner=owner_of(failure.for_queue or failure.queue, owners),
            weeks=tuple(row.weeks),
            first_at=row.first_at,
            last_at=row.last_at,
            aside=aside.get(failure),
        )
        for failure, row in found.items()
    )
    return tuple(
        sorted(groups, key=lambda group: (group.this_week, sum(group.weeks), group.last_at, group.failure.name), reverse=True)
    )


def owner_of(queue: str, owners: Mapping[str, str]) -> str:
    """Return the owner of the longest prefix that the name of the queue begins with; empty without such a prefix."""
    prefix = max((prefix for prefix in owners if queue.startswith(prefix)), key=len, default=None)
    return "" if prefix is None else owners[prefix]
