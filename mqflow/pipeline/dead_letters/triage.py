"""What rules tables would do with the dead letters of a table: counts by rule, what no rule takes, what two tables differ in.

Nothing is moved, and one pass is enough: it groups the messages by which rules match them; the rest is counting those groups.
Only for a sample of what no rule takes is there a second look, at the days that can have it.
Knows compiled rules and the columns of `bronze.dead_letter`; knows no queue manager.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.pipeline.dead_letters.rules_columns import CompiledRules, numbers_of
from mqflow.pipeline.schemas import DAY_US
from mqflow.policy.dead_letters.rules import Action, Rule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ("SAMPLE_MAX", "Difference", "RuleUse", "Triage", "Unmatched", "differences", "triage", "unmatched")

SAMPLE_MAX: Final = 20
"""How many unmatched messages are shown."""
_CANNOT_FAIL: Final = frozenset({Action.DISCARD, Action.IGNORE})
_EPOCH: Final = date(1970, 1, 1)
_SHOWN: Final = ("msg_id", "dlq", "dlh_reason", "dlh_dest_q", "dlh_format", "put_appl_name", "user_id", "dlh_put_ts", "msg_len")


class RuleUse(Struct, frozen=True, kw_only=True):
    """What one rule would do."""

    #: From 1 on, and the line of the table it begins in.
    number: int
    line: int
    action: str
    #: Messages whose turn this rule is first, and their bytes.
    first: int
    first_bytes: int
    #: Messages that match it, whatever stands before it.
    matching: int
    #: When the oldest message that it is first for was put on the dead-letter queue; None where none is, or none says.
    oldest: datetime | None
    #: For messages it matches but is not first for: the rules before it that are, with how many messages each takes.
    taken_by: tuple[tuple[int, int], ...]

    @property
    def never_fires(self) -> bool:
        """Whether no message matches it at all."""
        return self.matching == 0

    @property
    def shadowed(self) -> bool:
        """Whether messages match it, and rules before it take every one of them."""
        return self.matching > 0 and self.first == 0

    @property
    def note(self) -> str:
        """What is odd about it, in words; empty where nothing is."""
        if self.never_fires:
            return "matches nothing"
        if self.shadowed:
            by = [str(at) for at, _ in self.taken_by]
            said = f"rule {by[0]} takes" if len(by) == 1 else f"rules {', '.join(by)} take"
            return f"never first: {said} all it matches"
        return ""


class Triage(Struct, frozen=True, kw_only=True):
    """What a table would do with the messages, first attempt each."""

    messages: int
    data_bytes: int
    #: Messages without an MQDLH: no rule looks at them, and they stay.
    strays: int
    #: Messages with an MQDLH that no rule matches: they stay too.
    unmatched: int
    unmatched_bytes: int
    #: Of those, by the day (UTC) they were put on the dead-letter queue, the first day first; None for those that say none.
    unmatched_by_day: tuple[tuple[date | None, int], ...]
    rules: tuple[RuleUse, ...]


class Unmatched(Struct, frozen=True):
    """A message that no rule takes."""

    #: By the names of the table's columns; identifiers in hexadecimal.
    columns: dict[str, str]


class Difference(Struct, frozen=True, kw_only=True):
    """Messages that two tables treat differently, all in the same way."""

    #: The number of the rule that is first, None for none; and what it does.
    before_rule: int | None
    before: str
    after_rule: int | None
    after: str
    messages: int
    data_bytes: int
    #: MsgId of one of them.
    example: bytes


class _Group(Struct, frozen=True):
    has_header: bool
    numbers: tuple[int, ...]
    #: Of messages that no rule takes.
    day: date | None
    messages: int
    data_bytes: int
    oldest: datetime | None


def triage(letters: "DataFrame", compiled: CompiledRules) -> Triage:
    """Return what the table would do with the dead letters; one pass, and what comes to the driver is a row a combination."""
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
    """Return some of the messages that have an MQDLH and that no rule takes; the oldest first.

    Where it is `known` what the table does with these letters, only days that the sample can be of are looked at.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - Spark is optional

    if known is not None and not known.unmatched:
        return ()
    early = letters if known is None else _of_days(letters, known.unmatched_by_day, most)
    left = early.where(f.col("has_dlh") & compiled.first_match().isNull()).select(*_SHOWN)
    rows = left.orderBy(f.col("dlh_put_ts").asc_nulls_last(), "msg_id").limit(most).collect()
    return tuple(Unmatched({name: _text(row[name]) for name in _SHOWN}) for row in rows)


def differences(
    letters: "DataFrame", before: CompiledRules, after: CompiledRules, *, retries: bool = False
) -> tuple[Difference, ...]:
    """Return what becomes of messages otherwise by the second table, most messages first.

    Rules are told apart by what they do (action, target, header, authority), not by where they stand: a table with its rules
    sorted otherwise that does the same has no difference. What is compared is what happens first; with `retries` all that would
    be tried in turn where what comes before it fails, up to the first rule that cannot fail (DISCARD, IGNORE).
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

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
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    masks = [mask.alias(f"mask_{at}") for at, mask in enumerate(compiled.masks())]
    names = [f"mask_{at}" for at in range(len(masks))]
    # Letter by letter, and not by what letters are alike in: a rule may look at a field that differs in every one of them.
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
            None if row["oldest"] is None else row["oldest"].astimezone(UTC),  # Spark gives it in the zone of this machine
        )
        for row in rows
    ]


def _of_days(letters: "DataFrame", days: Sequence[tuple[date | None, int]], most: int) -> "DataFrame":
    """Return the letters among which the oldest so many that no rule takes are: a condition that Parquet can skip by."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

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
    """Return in words what is done with a message: two rules that do the same say the same."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    number = compiled.first_match()
    return f.concat_ws(" ", compiled.described(number), compiled.target(number))


def _all_actions(compiled: CompiledRules) -> "Column":
    """Return in words all that is tried in turn; after the last rule the message is left, as IGNORE leaves it."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

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
