"""Groups failed messages by the reasons why they are on a backout requeue or dead-letter queue.

This module knows reasons and times. It reads no queue and no clock.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.policy.poison.disposition_record import put_time_us
from mqflow.policy.poison.moved_message import Why, why

__all__ = (
    "DEFAULT_PARTS",
    "FailedMessage",
    "FailureGroup",
    "Part",
    "Sample",
    "Trend",
    "failed_message",
    "failure_groups",
    "group_name",
)


class Part(StrEnum):
    """A part of the reason of a failure. Messages are in one group if all chosen parts are equal."""

    #: The queue that the messages came from.
    QUEUE = "queue"
    #: The reason in the MQDLH, and the outcome of the last handling.
    REASON = "reason"
    #: The class of the exception. The text is not compared, because it often quotes the message.
    EXCEPTION = "exception"
    #: The innermost frame of the application: `file:line in function`.
    FRAME = "frame"
    HANDLER = "handler"
    #: The time since the move, in one of the classes of `_AGES`.
    AGE = "age"


DEFAULT_PARTS: Final = (Part.QUEUE, Part.REASON, Part.EXCEPTION, Part.FRAME)

_AGES: Final = (
    (timedelta(minutes=1), "the last minute"),
    (timedelta(hours=1), "the last hour"),
    (timedelta(days=1), "the last day"),
    (timedelta(days=7), "the last week"),
    (timedelta(days=30), "the last 30 days"),
)
_WINDOWS: Final = 24
_STEPS: Final = (
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(hours=1),
    timedelta(hours=6),
    timedelta(days=1),
    timedelta(days=7),
)
"""The lengths of the windows of a trend. Each length is a multiple of the shorter lengths, so windows can be added up."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class FailedMessage(Struct, frozen=True, kw_only=True):
    """A message on a backout requeue or dead-letter queue."""

    message_id: bytes
    #: The reason of the message's last move. All fields are empty if the reason is unknown.
    why: Why
    #: The time of the move. If that is unknown, the time of the first put; None if both are unknown.
    at: datetime | None
    #: True if the message itself has the whole reason; false if a part of it comes from the decision ledger.
    has_reason: bool = True


def failed_message(descriptor: MessageDescriptor, data: bytes) -> FailedMessage:
    """Return the message with its reason and time. `data` needs only the headers."""
    reason = why(descriptor, data) or Why()
    at = reason.at
    if at is None:
        put_us = put_time_us(descriptor.put_date, descriptor.put_time)
        at = None if put_us is None else _EPOCH + timedelta(microseconds=put_us)
    elif at.tzinfo is None:  # any program can write this time
        at = at.replace(tzinfo=UTC)
    return FailedMessage(message_id=descriptor.message_id, why=reason, at=at)


class Sample(Struct, frozen=True, kw_only=True):
    """One message of a group, as an example."""

    message_id: bytes
    at: datetime | None
    #: The text of the message's exception.
    text: str


class Trend(Struct, frozen=True):
    """The number of messages of a group in each of 24 windows of the same length. The last window ends now."""

    #: The length of a window: 1 or 5 minutes, 1 or 6 hours, a day or a week. It is the shortest that covers the whole group.
    window: timedelta
    #: The oldest window first. A message that is older than 24 weeks is in no window.
    messages: tuple[int, ...]


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Messages with the same reason. A part that was not chosen is None; a part that the messages do not give is empty."""

    messages: int
    queue: str | None
    #: MQRC_* or MQFB_* of the MQDLH; 0 if there is no reason.
    reason: int | None
    #: "failed" or "undecodable".
    outcome: str | None
    exception: str | None
    frame: str | None
    handler: str | None
    age: str | None
    first_at: datetime | None
    last_at: datetime | None
    #: The newest messages of the group, newest first.
    samples: tuple[Sample, ...]
    #: True if each message itself has the whole reason, so that a filter on messages can find the group.
    has_reason: bool
    #: None if no message of the group has a time.
    trend: Trend | None = None
    #: The name that `group_name` gives each message of the group.
    name: str = ""


def failure_groups(
    messages: Iterable[FailedMessage], *, now: datetime, parts: Collection[Part] = DEFAULT_PARTS, samples_max: int = 3
) -> tuple[FailureGroup, ...]:
    """Return the groups of these messages, largest first. Each message is in exactly one group.

    Groups of the same size are ordered by their newest message, newest first. The memory grows with the number of groups, not
    with the number of messages.
    """
    groups: dict[_Key, _Gathered] = {}
    for message in messages:
        groups.setdefault(_key(message, parts, now), _Gathered(now)).add(message, samples_max)
    found = [gathered.group(key) for key, gathered in groups.items()]
    return tuple(sorted(found, key=lambda group: (group.messages, group.last_at or _NEVER), reverse=True))


def group_name(message: FailedMessage, *, now: datetime, parts: Collection[Part] = DEFAULT_PARTS) -> str:
    """Return the name of the message's group: 16 hexadecimal digits. Every process computes the same name."""
    return _name(_key(message, parts, now))


class _Key(Struct, frozen=True):
    """The chosen parts of a reason."""

    queue: str | None
    reason: int | None
    outcome: str | None
    exception: str | None
    frame: str | None
    handler: str | None
    age: str | None


def _name(key: _Key) -> str:
    return sha256(msgspec.json.encode(key)).hexdigest()[:16]


def _key(message: FailedMessage, parts: Collection[Part], now: datetime) -> _Key:
    why = message.why
    return _Key(
        queue=why.queue if Part.QUEUE in parts else None,
        reason=why.reason if Part.REASON in parts else None,
        outcome=why.outcome if Part.REASON in parts else None,
        exception=why.error if Part.EXCEPTION in parts else None,
        frame=why.frame if Part.FRAME in parts else None,
        handler=why.handler if Part.HANDLER in parts else None,
        age=_age(message.at, now) if Part.AGE in parts else None,
    )


def _age(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    return next((words for limit, words in _AGES if now - at < limit), "older")


class _Gathered:
    """The messages of one group that were added so far."""

    def __init__(self, now: datetime) -> None:
        self._now: Final = now
        self._messages = 0
        self._first: datetime | None = None
        self._last: datetime | None = None
        #: The number of messages by age. Each age is rounded down to a multiple of the window that covers it.
        self._ages: Counter[timedelta] = Counter()
        self._step = _STEPS[0]
        self._samples: list[Sample] = []
        self._has_reason = True

    def add(self, message: FailedMessage, samples_max: int) -> None:
        self._messages += 1
        self._has_reason &= message.has_reason
        if message.at is not None:
            self._first = message.at if self._first is None else min(self._first, message.at)
            self._last = message.at if self._last is None else max(self._last, message.at)
            age = max(self._now - message.at, timedelta())  # the clock of another machine can be fast
            # The shortest window that covers this age if it is repeated 24 times; otherwise the longest window.
            step = next((step for step in _STEPS if age < step * _WINDOWS), _STEPS[-1])
            self._ages[age // step * step] += 1
            self._step = max(self._step, step)
        self._samples.append(Sample(message_id=message.message_id, at=message.at, text=message.why.text))
        self._samples.sort(key=lambda sample: sample.at or _NEVER, reverse=True)
        del self._samples[samples_max:]

    def group(self, key: _Key) -> FailureGroup:
        return FailureGroup(
            **asdict(key),
            messages=self._messages,
            first_at=self._first,
            last_at=self._last,
            trend=self._trend(),
            samples=tuple(self._samples),
            has_reason=self._has_reason,
            name=_name(key),
        )

    def _trend(self) -> Trend | None:
        if not self._ages:
            return None
        counts = Counter[int]()
        for age, messages in self._ages.items():
            counts[age // self._step] += messages
        return Trend(self._step, tuple(counts[ago] for ago in reversed(range(_WINDOWS))))
