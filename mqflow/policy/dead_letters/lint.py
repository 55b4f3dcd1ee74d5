"""Finds the parts of a valid rules table that are not errors, but that the author has probably not intended.

This module is pure: it reads rules, but no queue and no message.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from msgspec import Struct

from mqflow.mqi.lexer import source_lines
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import like
from mqflow.policy.dead_letters.rules import DESTINATION_QUEUE, REPLY_QUEUE, Action, Condition, Rule, RulesTable
from mqflow.policy.dead_letters.rules.lexer import LINE_CHARS_PORTABLE
from mqflow.policy.dead_letters.rules.vocabulary import Field

__all__ = ("LintFinding", "lint")

_WILD = ("*", "?")
_POISON: Final = frozenset({Reason.BACKOUT_THRESHOLD_REACHED, Reason.JMS_FORMAT_ERROR})
"""The reasons of messages that an application has failed to handle or to decode."""


class LintFinding(Struct, frozen=True):
    """A part of the table that the author has probably not intended, with its line."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def lint(table: RulesTable, text: str = "", *, queue: str = "") -> tuple[LintFinding, ...]:
    """Return the findings, sorted by line. `text` is the text of the table, `queue` the queue whose messages it handles."""
    source = queue or table.control.input_queue
    found = [*_long_lines(text), *_shadowed(table.rules), *_circles(table.rules, source), *_replies(table.rules)]
    found += _open_end(table.rules)
    return tuple(sorted(found, key=lambda finding: finding.line))


def covers(earlier: Rule, later: Rule) -> bool:
    """Return whether the earlier rule matches every message that the later rule matches."""
    return all(any(_implies(mine, other) for mine in later.conditions) for other in earlier.conditions)


def _implies(one: Condition, other: Condition) -> bool:
    if one.field is not other.field:
        return False
    if isinstance(one.value, str) and isinstance(other.value, str) and not any(mark in one.value for mark in _WILD):
        return like(other.value)(one.value)
    return one.value == other.value


def _shadowed(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    """Yield a finding for each rule that gets no message, or only the messages that an FWD rule failed to forward.

    A rule that messages reach after the attempts of a RETRY rule is normal, and has no finding.
    """
    for number, rule in enumerate(rules):
        before = [earlier for earlier in rules[:number] if covers(earlier, rule)]
        final = next((earlier for earlier in before if earlier.action in {Action.IGNORE, Action.DISCARD}), None)
        forward = next((earlier for earlier in before if earlier.action is Action.FWD), None)
        if final is not None:
            text = f"It is never reached: line {final.line} ({final.action.value}) takes every message that it matches."
            yield LintFinding(rule.line, text)
        elif forward is not None:
            text = f"Only messages that line {forward.line} failed to forward reach it."
            yield LintFinding(rule.line, text)


def _circles(rules: Sequence[Rule], source: str) -> Iterator[LintFinding]:
    for rule in rules:
        if rule.action is Action.FWD and source and rule.forward_queue == source and not rule.forward_queue_manager:
            yield LintFinding(rule.line, f"It forwards to {source}, the queue of the messages: every attempt fails.")
        puts_back = rule.action is Action.RETRY or rule.forward_queue == DESTINATION_QUEUE
        if puts_back and any(each.field is Field.REASON and each.value in _POISON for each in rule.conditions):
            yield LintFinding(
                rule.line,
                "It puts poison messages back on the queue of the application that failed. A message that fails again comes "
                "back as a new dead letter, so it goes round for ever.",
            )


def _replies(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    for rule in rules:
        asked = any(condition.field is Field.REPLYQ for condition in rule.conditions)
        if rule.forward_queue == REPLY_QUEUE and not asked:
            yield LintFinding(
                rule.line, "It also matches messages without a ReplyToQ, which FWDQ(&REPLYQ) cannot forward: add REPLYQ(?*)."
            )


def _open_end(rules: Sequence[Rule]) -> Iterator[LintFinding]:
    last = rules[-1]
    stays = "a message that matches no rule stays and is read again and again"
    if not last.conditions:
        match last.action:
            case Action.FWD | Action.DISCARD:
                return
            case Action.RETRY:
                stays = "a message on which this rule has used up its RETRY attempts stays and is read again and again"
            case Action.IGNORE:
                stays = "a message that this rule matches stays and is read again and again"
            case _:
                assert_never(last.action)
    text = f"No last rule forwards the rest of the messages: {stays}."
    yield LintFinding(last.line, f"{text} A last rule ACTION(FWD) FWDQ(...) HEADER(YES) prevents that.")


def _long_lines(text: str) -> Iterator[LintFinding]:
    for number, line in enumerate(source_lines(text), start=1):
        if len(line.rstrip()) > LINE_CHARS_PORTABLE and not line.startswith("*"):
            yield LintFinding(
                number, f"It is longer than {LINE_CHARS_PORTABLE} characters, which the handler of some platforms refuses."
            )
