"""Groups failed messages by the reasons why they are on a backout requeue or dead-letter queue.

This module knows reasons and times. It reads no queue and no clock.
"""

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
    "failed_message",
    "failure_groups",
    "group_name",
)


class Part(StrEnum):
    """A part of a reason. Messages are in one group if all chosen parts are equal."""

    #: The queue that the messages came from.
    QUEUE = "queue"
    #: The reason of the MQDLH, and the outcome of the last handling.
    REASON = "reason"
    #: The class of the exception. Its text is no part, because it often quotes the message.
    EXCEPTION = "exception"
    #: `file:line in function`, the innermost frame of the application.
    FRAME = "frame"
    HANDLER = "handler"
    #: The time since the move, as one of `_AGES`.
    AGE = "age"


DEFAULT_PARTS: Final = (Part.QUEUE, Part.REASON, Part.EXCEPTION, Part.FRAME)

_AGES: Final = (
    (timedelta(minutes=1), "the last minute"),
    (timedelta(hours=1), "the last hour"),
    (timedelta(days=1), "the last day"),
    (timedelta(days=7), "the last week"),
    (timedelta(days=30), "the last 30 days"),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class FailedMessage(Struct, frozen=True, kw_only=True):
    """A message on a backout requeue or dead-letter queue."""

    message_id: bytes
    #: The reason of its last move; all fields are empty if nobody knows the reason.
    why: Why
    #: The time of the move, or of the first put if the move has no time; None if neither is known.
    at: datetime | None
    #: Whether the message itself has the whole reason; false if a part comes from the decision ledger.
    has_reason: bool = True


def failed_message(descriptor: MessageDescriptor, data: bytes) -> FailedMessage:
    """Return the message with its reason and time. `data` can be cut off behind the headers."""
    reason = why(descriptor, data) or Why()
    at = reason.at
    if at is None:
        put_us = put_time_us(descriptor.put_date, descriptor.put_time)
        at = None if put_us is None else _EPOCH + timedelta(microseconds=put_us)
    elif at.tzinfo is None:  # any program can write the header
        at = at.replace(tzinfo=UTC)
    return FailedMessage(message_id=descriptor.message_id, why=reason, at=at)


class Sample(Struct, frozen=True, kw_only=True):
    """One message of a group."""

    message_id: bytes
    at: datetime | None
    #: The text of its exception.
    text: str


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Messages with the same reason. A part that was not chosen is None; a part that no message gives is empty."""

    messages: int
    queue: str | None
    #: MQRC_* or MQFB_* of the MQDLH; 0 for none.
    reason: int | None
    #: "failed", "undecodable".
    outcome: str | None
    exception: str | None
    frame: str | None
    handler: str | None
    age: str | None
    first_at: datetime | None
    last_at: datetime | None
    #: The newest messages, newest first.
    samples: tuple[Sample, ...]
    #: Whether each message itself has the whole reason, so that a filter on messages finds the group.
    has_reason: bool
    #: What `group_name` gives for each message of the group.
    name: str = ""


def failure_groups(
    messages: Iterable[FailedMessage],
    *,
    now: datetime,
    parts: Collection[Part] = DEFAULT_PARTS,
    samples_max: int = 3,
) -> tuple[FailureGroup, ...]:
    """Return the groups of these messages, the largest first. Each message is in exactly one group.

    Groups of the same size are in the order of their newest messages, the newest first. Memory grows with the number of groups,
    and not with the number of messages.
    """
    groups: dict[_Key, _Gathered] = {}
    for message in messages:
        groups.setdefault(_key(message, parts, now), _Gathered()).add(message, samples_max)
    found = [gathered.group(key) for key, gathered in groups.items()]
    return tuple(sorted(found, key=lambda group: (group.messages, group.last_at or _NEVER), reverse=True))


def group_name(message: FailedMessage, *, now: datetime, parts: Collection[Part] = DEFAULT_PARTS) -> str:
    """Return the name of the group that the message is in: 16 hexadecimal digits, the same in every process."""
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
    """The messages of one group so far."""

    def __init__(self) -> None:
        self._messages = 0
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._samples: list[Sample] = []
        self._has_reason = True

    def add(self, message: FailedMessage, samples_max: int) -> None:
        self._messages += 1
        self._has_reason &= message.has_reason
        if message.at is not None:
            self._first = message.at if self._first is None else min(self._first, message.at)
            self._last = message.at if self._last is None else max(self._last, message.at)
        self._samples.append(Sample(message_id=message.message_id, at=message.at, text=message.why.text))
        self._samples.sort(key=lambda sample: sample.at or _NEVER, reverse=True)
        del self._samples[samples_max:]

    def group(self, key: _Key) -> FailureGroup:
        return FailureGroup(
            **asdict(key),
            messages=self._messages,
            first_at=self._first,
            last_at=self._last,
            samples=tuple(self._samples),
            has_reason=self._has_reason,
            name=_name(key),
        )
