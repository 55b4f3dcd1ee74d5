"""Dry runs of rules tables on the dead letters of a table: counts by rule, unmatched letters, differences of two tables.

A dry run moves no message. One pass groups the messages by the rules that match them, and counts the groups. Only the sample of
unmatched letters needs a second pass, over the days that can contain it. This file knows compiled rules and the columns of
`bronze.dead_letter`, but no queue manager.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.pipeline.dead_letters.rules_columns import CompiledRules, numbers_of
from mqflow.pipeline.extras import f
from mqflow.pipeline.schemas import DAY_US
from mqflow.policy.dead_letters.rules import Action, Rule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("SAMPLE_MAX", "Difference", "RuleUse", "Triage", "Unmatched", "differences", "triage", "unmatched")

SAMPLE_MAX: Final = 20
"""The size of the sample of unmatched messages."""
_CANNOT_FAIL: Final = frozenset({Action.DISCARD, Action.IGNORE})
_EPOCH: Final = date(1970, 1, 1)
_SHOWN: Final = ("msg_id", "dlq", "dlh_reason", "dlh_dest_q", "dlh_format", "put_appl_name", "user_id", "dlh_put_ts", "msg_len")


class RuleUse(Struct, frozen=True, kw_only=True):
    """The effect that one rule would have."""

    #: The number of the rule, from 1, and its first line in the table.
    number: int
    line: int
    action: str
    #: Messages for which this rule is the first match, and their bytes.
    first: int
    first_bytes: int
    #: Messages that match the rule, regardless of earlier rules.
    matching: int
    #: The time at which the oldest message of `first` was put on the dead-letter queue; None if unknown.
    oldest: datetime | None
    #: The earlier rules that take messages which this rule matches, with the number of messages.
    taken_by: tuple[tuple[int, int], ...]

    @property
    def never_fires(self) -> bool:
        """True if no message matches the rule."""
        return self.matching == 0

    @property
    def shadowed(self) -> bool:
        """True if earlier rules take every message that the rule matches."""
        return self.matching > 0 and self.first == 0

    @property
    def note(self) -> str:
        """A remark in words if the rule never acts; otherwise empty."""
        if self.never_fires:
            return "matches nothing"
        if self.shadowed:
            by = [str(at) for at, _ in self.taken_by]
            said = f"rule {by[0]} takes" if len(by) == 1 else f"rules {', '.join(by)} take"
            return f"never first: {said} all it matches"
        return ""


class Triage(Struct, frozen=True, kw_only=True):
    """The effect that a rules table would have, on the first attempt for each message."""

    messages: int
    data_bytes: int
    #: Messages without an MQDLH: no rule applies to them, and they stay.
    strays: int
    #: Messages with an MQDLH that no rule matches: these messages stay too.
    unmatched: int
    unmatched_bytes: int
    #: The unmatched messages by the day (UTC) of their put on the dead-letter queue, in order; None if the day is unknown.
    unmatched_by_day: tuple[tuple[date | None, int], ...]
    rules: tuple[RuleUse, ...]


class Unmatched(Struct, frozen=True):
    """A message that no rule takes."""

    #: Values by column name; identifiers in hexadecimal.
    columns: dict[str, str]


class Difference(Struct, frozen=True, kw_only=True):
    """Messages that two rules tables treat differently, grouped by both treatments."""

    #: The number of the first rule that matches, or None; and the action.
    before_rule: int | None
    before: str
    after_rule: int | None
    after: str
    messages: int
    data_bytes: int
    #: The MsgId of one of these messages.
    example: bytes


class _Group(Struct, frozen=True):
    has_header: bool
    numbers: tuple[int, ...]
    #: The day of the put, only for unmatched messages.
    day: date | None
    messages: int
    data_bytes: int
    oldest: datetime | None


def triage(letters: "DataFrame", compiled: CompiledRules) -> Triage:
    """Return the effect of the rules on the dead letters. One pass; the driver gets one row for each combination of rules."""
    groups = _groups(letters, compiled)
    strays = [group for group in groups if not group.has_header]
    left = [group for group in groups if group.has_header and not group.numbers]
    days = sorted(left, key=lambda group: (group.day is None, group.day))
    return Triage(
        messages=_messages(groups),
        data_bytes=_bytes(groups),
        strays=_messages(strays),
        unmatched=_messages(left),
        unmatched_bytes=_bytes(left),
        unmatched_by_day=tuple((group.day, group.messages) for group in days),
        rules=tuple(_use(number, rule, groups) for number, rule in enumerate(compiled.rules, start=1)),
    )


def unmatched(
    letters: "DataFrame", compiled: CompiledRules, most: int = SAMPLE_MAX, *, known: Triage | None = None
) -> tuple[Unmatched, ...]:
    """Return a sample of the messages that have an MQDLH but match no rule, the oldest first.

    With the result of `triage` as `known`, the function reads only the days that can contain the sample.
    """
    if known is not None and not known.unmatched:
        return ()
    early = letters if known is None else _of_days(letters, known.unmatched_by_day, most)
    left = early.where(f.col("has_dlh") & compiled.first_match().isNull()).select(*_SHOWN)
    rows = left.orderBy(f.col("dlh_put_ts").asc_nulls_last(), "msg_id").limit(most).collect()
    return tuple(Unmatched({name: _text(row[name]) for name in _SHOWN}) for row in rows)


def differences(
    letters: "DataFrame", before: CompiledRules, after: CompiledRules, *, retries: bool = False
) -> tuple[Difference, ...]:
    """Return the messages that the second table treats differently, most messages first.

    Rules differ by their effect (action, target, header, authority), not by their position: a reordered table with the same
    effect has no difference. The comparison covers the first action. With `retries` it also covers all actions that follow
    a failed action, up to the first rule that cannot fail (DISCARD, IGNORE).
    """
    actions = _all_actions if retries else _first_action
    both = letters.where("has_dlh").select(
        "msg_id",
        f.coalesce("msg_len", f.lit(0)).alias("msg_len"),
        before.first_match().alias("before_rule"),
        after.first_match().alias("after_rule"),
        actions(before).alias("before"),
        actions(after).alias("after"),
    )
    grouped = both.where(f.col("before") != f.col("after")).groupBy("before_rule", "before", "after_rule", "after")
    rows = grouped.agg(
        f.count(f.lit(1)).alias("messages"), f.sum("msg_len").alias("bytes"), f.min("msg_id").alias("example")
    ).collect()
    found = [
        Difference(
            before_rule=row["before_rule"],
            before=row["before"],
            after_rule=row["after_rule"],
            after=row["after"],
            messages=row["messages"],
            data_bytes=row["bytes"],
            example=bytes(row["example"] or b""),
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda one: (-one.messages, one.before, one.after)))


def _groups(letters: "DataFrame", compiled: CompiledRules) -> list[_Group]:
    masks = [mask.alias(f"mask_{at}") for at, mask in enumerate(compiled.masks())]
    names = [f"mask_{at}" for at in range(len(masks))]
    # Letter by letter, not by groups of equal letters: a rule can test a field that differs in every letter.
    judged = letters.select("has_dlh", f.col("msg_len").cast("long").alias("msg_len"), "dlh_put_ts", *masks)
    taken = reduce(or_, (f.col(name) != 0 for name in names), f.lit(False))
    day = f.when(f.col("has_dlh") & ~taken, f.floor(f.unix_micros("dlh_put_ts") / DAY_US))
    rows = (
        judged.groupBy("has_dlh", *names, day.alias("day"))
        .agg(f.count(f.lit(1)).alias("messages"), f.sum("msg_len").alias("bytes"), f.min("dlh_put_ts").alias("oldest"))
        .collect()
    )
    return [
        _Group(
            bool(row["has_dlh"]),
            numbers_of([row[name] for name in names]),
            None if row["day"] is None else _EPOCH + timedelta(days=row["day"]),
            row["messages"],
            row["bytes"] or 0,
            None if row["oldest"] is None else row["oldest"].astimezone(UTC),  # Spark returns the time zone of this machine
        )
        for row in rows
    ]


def _of_days(letters: "DataFrame", days: Sequence[tuple[date | None, int]], most: int) -> "DataFrame":
    """Return all letters of the days with the first `most` unmatched letters. A scan then skips the files of other days."""
    found = 0
    for day, messages in days:
        found += messages
        if day is not None and found >= most:
            end = datetime.combine(day + timedelta(days=1), time(), UTC)
            return letters.where(f.col("dlh_put_ts") < f.lit(end))
    return letters


def _use(number: int, rule: Rule, groups: Sequence[_Group]) -> RuleUse:
    matching = [group for group in groups if number in group.numbers]
    first = [group for group in matching if group.numbers[0] == number]
    taken: Counter[int] = Counter()
    for group in matching:
        if group.numbers[0] != number:
            taken[group.numbers[0]] += group.messages
    return RuleUse(
        number=number,
        line=rule.line,
        action=rule.action.value,
        first=_messages(first),
        first_bytes=_bytes(first),
        matching=_messages(matching),
        oldest=min((group.oldest for group in first if group.oldest is not None), default=None),
        taken_by=tuple(sorted(taken.items())),
    )


def _first_action(compiled: CompiledRules) -> "Column":
    """Return the first action on a message in words, equal for rules with the same effect."""
    number = compiled.first_match()
    return f.concat_ws(" ", compiled.described(number), compiled.target(number))


def _all_actions(compiled: CompiledRules) -> "Column":
    """Return in words all actions tried in turn; after the last rule the message stays, as with IGNORE."""
    tried: list[Column] = []
    ended = f.lit(False)
    for number, rule in enumerate(compiled.rules, start=1):
        matches = compiled.matches(number)
        this = f.lit(number)
        said = f.concat_ws(" ", compiled.described(this), compiled.target(this))
        tried.append(f.when(matches & ~ended, said))
        if rule.action in _CANNOT_FAIL:
            ended |= matches
    tried.append(f.when(~ended, f.lit(Action.IGNORE.value)))
    return f.concat_ws(", then ", *tried)


def _messages(groups: Iterable[_Group]) -> int:
    return sum(group.messages for group in groups)


def _bytes(groups: Iterable[_Group]) -> int:
    return sum(group.data_bytes for group in groups)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bytes() | bytearray():
            return value.hex()
        case datetime():
            return value.astimezone(UTC).isoformat()
        case _:
            return str(value)
