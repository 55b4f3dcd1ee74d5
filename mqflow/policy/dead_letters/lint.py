"""Looks over a valid rules table for what is no error but seldom meant.

Pure: knows rules, no queue. What a table would do with real messages is found by asking it about them.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import Struct

from mqflow.mqi.lexer import source_lines
from mqflow.policy.dead_letters.actions import like
from mqflow.policy.dead_letters.rules import REPLY_QUEUE, Action, Condition, Rule, RulesTable
from mqflow.policy.dead_letters.rules.lexer import LINE_CHARS_PORTABLE
from mqflow.policy.dead_letters.rules.vocabulary import Field

__all__ = ("Finding", "lint")

_WILD = ("*", "?")


class Finding(Struct, frozen=True):
    """Something to think about."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def lint(table: RulesTable, text: str = "", *, queue: str = "") -> tuple[Finding, ...]:
    """Return what is seldom meant, in order of lines. `text` is what the table was read from, `queue` what it is for."""
    source = queue or table.control.input_queue
    found = [*_long_lines(text), *_shadowed(table.rules), *_circles(table.rules, source), *_replies(table.rules)]
    found += _open_end(table.rules)
    return tuple(sorted(found, key=lambda finding: finding.line))


def covers(earlier: Rule, later: Rule) -> bool:
    """Whether every message that the later rule matches is matched by the earlier one."""
    return all(any(_implies(mine, other) for mine in later.conditions) for other in earlier.conditions)


def _implies(one: Condition, other: Condition) -> bool:
    if one.field is not other.field:
        return False
    if one.value == other.value:
        return True
    if isinstance(one.value, int) or isinstance(other.value, int):
        return False
    return not any(mark in one.value for mark in _WILD) and like(other.value)(one.value)


def _shadowed(rules: Sequence[Rule]) -> Iterator[Finding]:
    """Say which rules a message comes to never, or only after a failure. RETRY is meant to be followed."""
    for number, rule in enumerate(rules):
        before = [earlier for earlier in rules[:number] if covers(earlier, rule)]
        final = next((earlier for earlier in before if earlier.action in {Action.IGNORE, Action.DISCARD}), None)
        forward = next((earlier for earlier in before if earlier.action is Action.FWD), None)
        if final is not None:
            said = f"It is never reached: line {final.line} ({final.action.value}) takes every message that it would match."
            yield Finding(rule.line, said)
        elif forward is not None:
            said = f"Only messages that line {forward.line} failed to forward come to it: it takes them all."
            yield Finding(rule.line, said)


def _circles(rules: Sequence[Rule], source: str) -> Iterator[Finding]:
    for rule in rules:
        if rule.action is Action.FWD and source and rule.forward_queue == source and not rule.forward_queue_manager:
            yield Finding(rule.line, f"It forwards to {source}, where the messages come from: every attempt will fail.")


def _replies(rules: Sequence[Rule]) -> Iterator[Finding]:
    for rule in rules:
        asked = any(condition.field is Field.REPLYQ for condition in rule.conditions)
        if rule.forward_queue == REPLY_QUEUE and not asked:
            yield Finding(
                rule.line, "It matches messages without a ReplyToQ too, which FWDQ(&REPLYQ) cannot forward: add REPLYQ(?*)."
            )


def _open_end(rules: Sequence[Rule]) -> Iterator[Finding]:
    last = rules[-1]
    stays = "what matches no rule stays and is looked at again and again"
    if not last.conditions:
        match last.action:
            case Action.FWD | Action.DISCARD:
                return
            case Action.RETRY:
                stays = "what this rule has failed on as often as RETRY says stays and is looked at again and again"
            case Action.IGNORE:
                stays = "what comes to this rule stays and is looked at again and again"
            case _:
                assert_never(last.action)
    said = f"No last rule forwards whatever is left: {stays}."
    yield Finding(last.line, f"{said} ACTION(FWD) FWDQ(...) HEADER(YES) ends that.")


def _long_lines(text: str) -> Iterator[Finding]:
    for number, line in enumerate(source_lines(text), start=1):
        if len(line.rstrip()) > LINE_CHARS_PORTABLE and not line.startswith("*"):
            yield Finding(
                number, f"It is longer than {LINE_CHARS_PORTABLE} characters, which not every platform's handler takes."
            )
