"""Converts cron expressions and intervals to rules, and each due time of a schedule to a message. This file runs nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn
from zoneinfo import ZoneInfo

from msgspec import Struct

from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.outgoing_message import PutKeywords, framed, outgoing
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.delivery_delay import DELAY_MS_MAX
from mqflow.policy.schedule import Interval, ScheduleRule

if TYPE_CHECKING:
    from cronsim import CronSim

__all__ = ("Cron", "Firing", "NoDecorator", "Schedule", "rule_of", "schedule_of")

_FIELDS: Final = 5


class Firing(Struct, frozen=True, kw_only=True):
    """The payload of a message that a schedule puts, if the schedule does not declare a payload."""

    #: The name of the schedule.
    schedule: str
    #: The time at which the schedule is due, in UTC.
    due: datetime
    #: The due time before that. For the first message, the time at which the schedule began.
    last: datetime


class Cron(Struct, frozen=True):
    """A rule with the times of a cron expression in a time zone. Cron expressions have the meaning of Debian's cron."""

    expression: str
    timezone: str = "UTC"

    @property
    def text(self) -> str:
        """The cron expression and its time zone."""
        return f"{self.expression} {self.timezone}"

    def next_after(self, moment: float) -> float:
        """Return the first time of the expression after `moment`."""
        return next(self._from(moment)).timestamp()

    def latest(self, since: float, now: float) -> float:
        """Return the last time up to `now`. If that time is not after `since`, return the first time after `since`."""
        return max(next(self._from(now // 1 + 1, reverse=True)).timestamp(), self.next_after(since))

    def _from(self, moment: float, *, reverse: bool = False) -> "CronSim":
        from cronsim import CronSim  # noqa: PLC0415 - only applications with a cron expression need it

        return CronSim(self.expression, datetime.fromtimestamp(moment, ZoneInfo(self.timezone)), reverse)


class Schedule(Struct, frozen=True, kw_only=True):
    """A declared schedule. `App.schedule` makes it."""

    #: The name, unique in the application.
    name: str
    rule: ScheduleRule
    #: The queue that gets a message each time the schedule is due.
    queue: str
    #: The queue that has the state message.
    state_queue: str
    #: Makes the descriptor and the data of the message to put, from the due time and the due time before that.
    message: Callable[[float, float], tuple[MessageDescriptor, bytes]]


class NoDecorator:
    """The result of `App.schedule`. Used as a decorator, it raises an error that says what to write."""

    def __init__(self, arguments: str, queue: str) -> None:
        self._arguments: Final = arguments
        self._queue: Final = queue

    def __call__(self, function: object) -> NoReturn:
        """Raise `ConfigurationError`."""
        name = getattr(function, "__name__", "the handler")  # a function has a name, another callable need not
        raise ConfigurationError(
            f"@app.schedule({self._arguments}) above {name}: schedule is no decorator. It puts messages on a queue, and a "
            f"listener handles them. Write app.schedule({self._arguments}) on a line of its own, and "
            f"@app.listener({self._queue!r}) above {name}."
        )


def schedule_of(
    when: str | timedelta | float, queue: str, name: str, timezone: str, state_queue: str, payload: Any, keywords: PutKeywords
) -> Schedule:
    """Return the schedule for these arguments of `App.schedule`. Raises `ConfigurationError`, or the errors of a put."""
    for argument, given in (("name", name), ("timezone", timezone), ("state_queue", state_queue)):
        if not isinstance(given, str) or not given:
            raise ConfigurationError(f"schedule({when!r}, {queue!r}, {argument}={given!r}): it takes a text.")
    if keywords.get("delay"):
        raise ConfigurationError(f"schedule({when!r}, {queue!r}): a firing has no delay. Choose another moment.")

    def message(due: float, last: float) -> tuple[MessageDescriptor, bytes]:
        firing = Firing(schedule=name, due=_utc(due), last=_utc(last))
        return framed(outgoing(queue, firing if payload is None else payload, **keywords))

    message(0.0, 0.0)  # refuse a payload that cannot be put now, and not only at night
    return Schedule(name=name, rule=rule_of(when, timezone), queue=queue, state_queue=state_queue, message=message)


def rule_of(when: str | timedelta | float, timezone: str = "UTC") -> ScheduleRule:
    """Return the rule for a cron expression, or for an interval: a timedelta or seconds. Raises `ConfigurationError`."""
    if not isinstance(when, str):
        every_s = when.total_seconds() if isinstance(when, timedelta) else when
        if not isinstance(every_s, int | float) or isinstance(every_s, bool) or not 1 <= every_s <= DELAY_MS_MAX / 1_000:
            problem = "it takes a cron expression, or an interval of 1 second or more, at most a century"
            raise ConfigurationError(f"schedule({when!r}, ...): {problem}.")
        return Interval(float(every_s))
    try:
        from cronsim import CronSimError  # noqa: PLC0415 - as in `Cron`
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"schedule({when!r}, ...) needs cronsim for its expression: pip install 'mqflow[schedule]'. "
            "An interval, timedelta(minutes=5), does not need it."
        ) from error
    try:
        ZoneInfo(timezone)
    except (ValueError, OSError, KeyError) as error:  # `ZoneInfoNotFoundError` is a subclass of KeyError
        problem = "there is no such time zone. An example is 'Europe/Berlin'"
        raise ConfigurationError(f"schedule(timezone={timezone!r}): {problem}.") from error
    rule = Cron(when, timezone)
    fields = "It has minute hour day month weekday, for example '0 6 * * MON-FRI'"
    if len(when.split()) > _FIELDS:  # cronsim takes a sixth field, for seconds
        raise ConfigurationError(f"schedule({when!r}, ...): this is no cron expression: Too many fields. {fields}.")
    try:
        rule.next_after(0.0)
    except (CronSimError, StopIteration) as error:
        raise ConfigurationError(f"schedule({when!r}, ...): this is no cron expression: {error}. {fields}.") from error
    return rule


def _utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)
