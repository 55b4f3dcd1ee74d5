"""Rules tables of the DLQ handler as Spark columns, so that Spark matches dead letters without running Python for each row.

The result for every message is the same as with `policy.dead_letters.actions`; a property test checks this. This file knows the
columns of `bronze.dead_letter`; it reads and writes no table.
Source: IBM q005680 for the patterns, through `policy.dead_letters.actions.like`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from operator import and_
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from mqflow.pipeline.extras import f
from mqflow.policy.dead_letters.rules import (
    DESTINATION_QUEUE,
    DESTINATION_QUEUE_MANAGER,
    REPLY_QUEUE,
    REPLY_QUEUE_MANAGER,
    Action,
    Condition,
    Rule,
    RulesError,
    RulesTable,
    parse,
)
from mqflow.policy.dead_letters.rules.vocabulary import Field

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ("COLUMNS", "MASK_RULES", "CompiledRules", "compile_rules", "numbers_of")

COLUMNS: Final = {
    Field.APPLIDAT: "appl_identity_data",
    Field.APPLNAME: "put_appl_name",
    Field.APPLTYPE: "put_appl_type",
    Field.DESTQ: "dlh_dest_q",
    Field.DESTQM: "dlh_dest_qm",
    Field.FEEDBACK: "feedback",
    Field.FORMAT: "dlh_format",
    Field.MSGTYPE: "msg_type",
    Field.PERSIST: "persistence",
    Field.REASON: "dlh_reason",
    Field.REPLYQ: "reply_q",
    Field.REPLYQM: "reply_qm",
    Field.USERID: "user_id",
}
"""The columns of `bronze.dead_letter` for the fields of a pattern."""
MASK_RULES: Final = 62
"""The number of rules in one mask: the bits of a long that is never negative."""
_COMPARED_MAX: Final = 64
"""The most values that the generated code compares one by one with a field; with more values, it uses a map."""
_WILD: Final = re.compile(r"[*?]")


class CompiledRules(Struct, frozen=True):
    """The rules of a table, numbered from 1, as columns over dead letters. A message without an MQDLH matches no rule."""

    rules: tuple[Rule, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rules test, besides `has_dlh`."""
        return tuple(sorted({COLUMNS[condition.field] for rule in self.rules for condition in rule.conditions}))

    def matches(self, number: int) -> "Column":
        """Return whether the message matches this rule, regardless of earlier rules; never null."""
        conditions = [_condition(condition) for condition in self.rules[number - 1].conditions]
        return f.coalesce(reduce(and_, (f.col("has_dlh"), *conditions)), f.lit(False))

    def first_match(self) -> "Column":
        """Return the number of the first rule that matches; null if no rule does."""

        def lowest(mask: "Column") -> "Column":
            # Counts the lowest bit and all bits below it; 64 if no bit is set. With `nullif` Spark computes this once.
            return f.nullif(f.bit_count(mask.bitwiseXOR(mask - 1)), f.lit(64))

        return f.coalesce(*(lowest(mask) + at * MASK_RULES for at, mask in enumerate(self.masks())))

    def masks(self) -> "list[Column]":
        """Return all matches as bits, in as few longs as possible.

        Spark groups a hundred million messages fastest by such a key. Each field contributes the bits of the rules that it
        allows. So Spark tests a condition of many rules once, and its generated code grows with the conditions, not with the
        rules. `numbers_of` reads the bits.
        """
        made = []
        for start in range(0, len(self.rules), MASK_RULES):
            rules = self.rules[start : start + MASK_RULES]
            every = f.lit((1 << len(rules)) - 1).cast("long")
            votes = (vote for field in COLUMNS for vote in _votes(field, rules))
            left = reduce(lambda one, other: one.bitwiseAND(other), votes, every)
            made.append(f.when(f.col("has_dlh"), left).otherwise(_bits(0)))
        return made

    def action(self, number: "Column") -> "Column":
        """Return the action of the rule with this number: RETRY, FWD, DISCARD or IGNORE; IGNORE for null."""
        return self._of_rule(number, lambda rule: rule.action.value, Action.IGNORE.value)

    def described(self, number: "Column") -> "Column":
        """Return the action and options of the rule with this number, without its target.

        Rules with the same effect have the same text.
        """
        return self._of_rule(number, _described, Action.IGNORE.value)

    def target(self, number: "Column") -> "Column":
        """Return the target queue of the rule with this number; null if the rule puts no message."""
        chosen = f.lit(None).cast("string")
        for at, rule in reversed(list(enumerate(self.rules, start=1))):
            chosen = f.when(number == at, _target(rule)).otherwise(chosen)
        return chosen

    def _of_rule(self, number: "Column", read: Callable[[Rule], str], other: str) -> "Column":
        chosen = f.lit(other)
        for at, rule in reversed(list(enumerate(self.rules, start=1))):
            chosen = f.when(number == at, f.lit(read(rule))).otherwise(chosen)
        return chosen


def compile_rules(table: RulesTable | str) -> CompiledRules:
    """Return the table, or its text, as columns. Raises `RulesError` with the place of every error in a text."""
    if isinstance(table, RulesTable):
        return CompiledRules(table.rules)
    parsed = parse(table)
    if not isinstance(parsed, RulesTable):
        raise RulesError(parsed)
    return CompiledRules(parsed.rules)


def numbers_of(masks: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the rules whose bits are set in `CompiledRules.masks`."""
    return tuple(at * MASK_RULES + bit + 1 for at, mask in enumerate(masks) for bit in range(MASK_RULES) if mask >> bit & 1)


def _votes(field: Field, rules: Sequence[Rule]) -> "Iterator[Column]":
    """Yield the rules that this field allows, as bits; yields nothing if no rule tests the field."""
    asked = ([condition.value for condition in rule.conditions if condition.field is field] for rule in rules)
    # The parser lets a rule test a field once; a table made in code can test it twice, and both conditions must hold.
    for values in zip_longest(*asked):
        wanted: dict[int | str, int] = {}
        for bit, value in enumerate(values):
            if value is not None:
                key = value.rstrip(" ") if isinstance(value, str) else value
                wanted[key] = wanted.get(key, 0) | 1 << bit
        indifferent = sum(1 << bit for bit, value in enumerate(values) if value is None)
        yield _matching_bits(field, wanted).bitwiseOR(_bits(indifferent))


def _matching_bits(field: Field, wanted: Mapping[int | str, int]) -> "Column":
    """Return the bits of the values and patterns that the field matches."""
    column = f.col(COLUMNS[field])
    plain = {value: bits for value, bits in wanted.items() if isinstance(value, int) or _WILD.search(value) is None}
    let = [
        f.when(_condition(Condition(field, value)), _bits(bits)).otherwise(_bits(0))
        for value, bits in wanted.items()
        if value not in plain
    ]
    if plain:
        let.append(f.coalesce(_looked_up(column, plain), _bits(0)))
    return reduce(lambda one, other: one.bitwiseOR(other), let)


def _looked_up(column: "Column", plain: Mapping[int | str, int]) -> "Column":
    """Return the bits of the value that the column has; null if `plain` does not have this value."""
    is_text = any(isinstance(value, str) for value in plain)
    key = f.rtrim(column) if is_text else column
    if len(plain) > _COMPARED_MAX:  # otherwise the code that Spark generates becomes too long to compile
        return f.element_at(f.create_map(*(part for value, bits in plain.items() for part in (f.lit(value), _bits(bits)))), key)
    # Most letters have another text: their hashes differ, and two numbers are compared faster than two texts.
    value_hash = f.xxhash64(key)
    found = f.when(column.isNull(), _bits(0))
    for value, bits in plain.items():
        alike = key == value
        found = found.when((value_hash == f.xxhash64(f.lit(value))) & alike if is_text else alike, _bits(bits))
    return found


def _bits(bits: int) -> "Column":
    return f.lit(bits).cast("long")


def _condition(condition: Condition) -> "Column":
    column = f.col(COLUMNS[condition.field])
    if isinstance(condition.value, int):
        return column == condition.value
    return _like(column, condition.value)


def _like(column: "Column", pattern: str) -> "Column":
    """Return whether the field matches the pattern, in the cheapest form with the same result."""
    pattern = pattern.rstrip(" ")
    if not pattern.strip("*") and pattern:
        return column.isNotNull()
    value = f.rtrim(column)
    parts = re.split(r"\*+", pattern)
    if "?" in pattern and parts[1:] in ([], [""]):
        return _in_place(value, parts[0], more=bool(parts[1:]))
    match parts if "?" not in pattern else ():
        case [whole]:
            found = value == whole
        case [start, ""]:
            found = value.startswith(start)
        case ["", end]:
            found = value.endswith(end)
        case ["", inside, ""]:
            found = value.contains(inside)
        case [start, end]:
            long_enough = f.octet_length(value) >= len((start + end).encode())
            found = long_enough & value.startswith(start) & value.endswith(end)
        case _:
            found = value.rlike(_java_pattern(parts))
    return found


def _in_place(value: "Column", start: str, *, more: bool) -> "Column":
    """Compare each part between question marks at its position: a regular expression costs several times more."""
    length = f.char_length(value)
    first, *others = re.finditer(r"[^?]+", start) if start.strip("?") else (None,)
    long_enough = length >= len(start) if more else length == len(start)
    if first is None:
        return long_enough
    alike = (f.substring(value, found.start() + 1, len(found[0])) == found[0] for found in (first, *others))
    # Most values differ at the beginning already.
    return reduce(and_, alike, value.startswith(first[0]) & long_enough if not first.start() else long_enough)


def _java_pattern(parts: Sequence[str]) -> str:
    """Return a regular expression that matches each part at its first place only, as `like` does. It is fast for every text."""
    first, *rest = parts
    if not rest:
        return rf"(?s)\A{_literal(first)}\z"
    *middle, last = rest
    found = "".join(f"(?>.*?{_literal(part)})" for part in middle)
    return rf"(?s)\A{_literal(first)}{found}.*{_literal(last)}\z"


def _literal(text: str) -> str:
    # A backslash makes every ASCII character except letters and digits literal, in Java as in Python.
    return "".join("." if each == "?" else each if each.isalnum() or ord(each) > 127 else f"\\{each}" for each in text)  # noqa: PLR2004 - the end of ASCII


def _described(rule: Rule) -> str:
    said = [rule.action.value]
    if rule.action in {Action.RETRY, Action.FWD}:
        if rule.action is Action.FWD:
            said.append("HEADER(YES)" if rule.keep_header else "HEADER(NO)")
        said.append(f"PUTAUT({rule.put_authority.value})")
    return " ".join(said)


def _target(rule: Rule) -> "Column":
    match rule.action:
        case Action.RETRY:
            queue, manager = f.col("dlh_dest_q"), f.col("dlh_dest_qm")
        case Action.FWD:
            references = {DESTINATION_QUEUE: "dlh_dest_q", REPLY_QUEUE: "reply_q"}
            managers = {DESTINATION_QUEUE_MANAGER: "dlh_dest_qm", REPLY_QUEUE_MANAGER: "reply_qm"}
            queue = f.col(references[rule.forward_queue]) if rule.forward_queue in references else f.lit(rule.forward_queue)
            named = rule.forward_queue_manager
            manager = f.col(managers[named]) if named in managers else f.lit(named)
        case _:
            return f.lit(None).cast("string")
    return f.when(manager == "", queue).otherwise(f.concat_ws("@", queue, manager))
