"""Decides what a rules table does with a dead letter: which rule applies to a message after several attempts, and its action.

This module puts nothing, and reads no clock. `policy.dead_letters.scan` decides which message comes next.
Source: IBM, "Processing the DLQ rules table"; q005590 for the effect of an action.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers import dead_letter as dead_letter_header
from mqflow.mqi.headers.dead_letter import DLH_BYTES, DeadLetterHeader
from mqflow.policy.dead_letters.intents import Discard, Ignore, Intent, Redirect
from mqflow.policy.dead_letters.rules import (
    DESTINATION_QUEUE,
    DESTINATION_QUEUE_MANAGER,
    REPLY_QUEUE,
    REPLY_QUEUE_MANAGER,
    Action,
    Condition,
    PutAuthority,
    Rule,
)
from mqflow.policy.dead_letters.rules.vocabulary import Field

__all__ = (
    "Chosen",
    "DeadLetter",
    "Discard",
    "Ignore",
    "Intent",
    "Matcher",
    "Redirect",
    "UnjudgedError",
    "choose",
    "dead_letter",
    "field_of",
    "like",
    "matcher",
    "matchers",
    "redirected",
    "takes_everything",
    "without_header",
)


class DeadLetter(Struct, frozen=True):
    """A message whose data begins with an MQDLH."""

    descriptor: MessageDescriptor
    header: DeadLetterHeader
    #: The message data from the MQDLH on. It can be cut off if the caller needed only its beginning.
    data: bytes


class UnjudgedError(Exception):
    """The function of a rule raised an exception. Therefore nobody knows whether this rule matches, or which rule applies."""

    def __init__(self, rule: str, error: Exception) -> None:
        self.rule = rule
        super().__init__(rule, error)

    def __str__(self) -> str:
        rule, error = self.args
        return f"{rule} raised {type(error).__name__}: {error}"


class Matcher(Struct, frozen=True):
    """A rule in a form that is quick to apply to many messages."""

    rule: Rule
    matches: Callable[[DeadLetter], bool]
    #: The name of the rule in reports and counters.
    name: str
    #: True if the rule matches every message.
    always: bool = False


class Chosen(Struct, frozen=True):
    """The intent (the action to carry out) for a message, and the rule that gave this intent."""

    intent: Intent
    #: None if no rule matches, or if each matching rule has used all its attempts.
    matcher: Matcher | None = None


def dead_letter(descriptor: MessageDescriptor, data: bytes) -> DeadLetter | None:
    """Return the message as a dead letter, or None if it does not begin with an MQDLH of version 1.

    The Format of the descriptor does not matter. Only the beginning of the data counts, in the encoding and character set of
    the descriptor.
    """
    try:
        header = dead_letter_header.parse(data, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    except MQIError:
        return None
    return DeadLetter(descriptor, header, data)


def matcher(rule: Rule, where: Callable[[DeadLetter], bool] | None = None, name: str = "") -> Matcher:
    """Return the rule as a `Matcher`. `where` is a further condition; an exception of `where` becomes `UnjudgedError`."""
    tests = [_test(condition) for condition in rule.conditions]
    named = name or f"line {rule.line}"
    if where is not None:
        tests.append(_guarded(where, named))
    match tests:
        case []:
            return Matcher(rule, lambda _: True, named, always=True)
        case [test]:
            return Matcher(rule, test, named)
        case [test, other]:
            return Matcher(rule, lambda letter: test(letter) and other(letter), named)
        case _:
            return Matcher(rule, lambda letter: all(test(letter) for test in tests), named)


def _guarded(where: Callable[[DeadLetter], bool], name: str) -> Callable[[DeadLetter], bool]:
    def guarded(letter: DeadLetter) -> bool:
        try:
            return where(letter)
        except Exception as error:
            raise UnjudgedError(name, error) from error

    return guarded


def takes_everything(matchers: Iterable[Matcher]) -> bool:
    """Return whether the rules act on every new message: a rule without conditions comes before any rule with IGNORE."""
    for each in matchers:
        if each.rule.action is Action.IGNORE:
            return False
        if each.always:
            return True
    return False


def choose(matchers: Iterable[Matcher], letter: DeadLetter, attempts: int) -> Chosen:
    """Return the intent of the first matching rule that has attempts left. `attempts` is the number of attempts so far.

    Each matching rule has as many attempts as its RETRY says, in the order of the rules. With RETRY(2) and then RETRY(3),
    attempts 1 and 2 belong to the first rule, and 3 to 5 to the second. A rule with IGNORE always applies. If no rule has
    attempts left, the message is ignored. Raises `UnjudgedError` if the function of a rule raised before a rule was chosen.
    Source: IBM, "Processing the rules table".
    """
    total = 0
    for each in matchers:
        if not each.matches(letter):
            continue
        total += each.rule.attempts_max
        if each.rule.action is Action.IGNORE or total > attempts:
            return Chosen(_intent(each.rule, letter), each)
    return Chosen(Ignore())


def redirected(letter: DeadLetter, redirect: Redirect) -> tuple[MessageDescriptor, bytes]:
    """Return the descriptor and the data for the put: unchanged, or without the MQDLH, as the rule says."""
    if redirect.keep_header:
        return letter.descriptor, letter.data
    return without_header(letter)


def without_header(letter: DeadLetter) -> tuple[MessageDescriptor, bytes]:
    """Return the message without its MQDLH.

    Format, Encoding and CodedCharSetId come from the MQDLH. If the MQDLH has MQCCSI_INHERIT, CodedCharSetId does not change.
    Source: q096110.
    """
    header = letter.header
    ccsid = letter.descriptor.ccsid if header.ccsid == CCSID_INHERIT else header.ccsid
    described = replace(letter.descriptor, format=header.format, encoding=header.encoding, ccsid=ccsid)
    return described, letter.data[DLH_BYTES:]


def field_of(field: Field, letter: DeadLetter) -> str | int:
    """Return the field of the message that a pattern keyword, such as REASON, compares."""
    return _FIELDS[field](letter)


def like(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests a field against the pattern: ``*`` means any number of characters, ``?`` means one.

    Trailing blanks are ignored. The time of a test grows at most with the product of both lengths, for any number of asterisks.
    """
    pattern = pattern.rstrip(" ")
    if "*" not in pattern and "?" not in pattern:
        return lambda value: value.rstrip(" ") == pattern
    matches = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match  # no sets of characters
    return lambda value: matches(value.rstrip(" ")) is not None


_FIELDS: Final[dict[Field, Callable[[DeadLetter], str | int]]] = {
    Field.APPLIDAT: lambda letter: letter.descriptor.application_identity_data,
    Field.APPLNAME: lambda letter: letter.descriptor.put_application_name,
    Field.APPLTYPE: lambda letter: letter.descriptor.put_application_type,
    Field.DESTQ: lambda letter: letter.header.destination_queue,
    Field.DESTQM: lambda letter: letter.header.destination_queue_manager,
    Field.FEEDBACK: lambda letter: letter.descriptor.feedback,
    Field.FORMAT: lambda letter: letter.header.format,
    Field.MSGTYPE: lambda letter: letter.descriptor.message_type,
    Field.PERSIST: lambda letter: letter.descriptor.persistence,
    Field.REASON: lambda letter: letter.header.reason,
    Field.REPLYQ: lambda letter: letter.descriptor.reply_to_queue,
    Field.REPLYQM: lambda letter: letter.descriptor.reply_to_queue_manager,
    Field.USERID: lambda letter: letter.descriptor.user_identifier,
}


def _test(condition: Condition) -> Callable[[DeadLetter], bool]:
    field, wanted = _FIELDS[condition.field], condition.value
    if isinstance(wanted, int):
        return lambda letter: field(letter) == wanted
    alike = like(wanted)
    return lambda letter: alike(str(field(letter)))


def _intent(rule: Rule, letter: DeadLetter) -> Intent:
    descriptor, header = letter.descriptor, letter.header
    user = descriptor.user_identifier if rule.put_authority is PutAuthority.CTX else None
    match rule.action:
        case Action.RETRY:
            return Redirect(header.destination_queue, header.destination_queue_manager, alternate_user=user)
        case Action.FWD:
            queues = {DESTINATION_QUEUE: header.destination_queue, REPLY_QUEUE: descriptor.reply_to_queue}
            managers = {
                DESTINATION_QUEUE_MANAGER: header.destination_queue_manager,
                REPLY_QUEUE_MANAGER: descriptor.reply_to_queue_manager,
            }
            return Redirect(
                queues.get(rule.forward_queue, rule.forward_queue),
                managers.get(rule.forward_queue_manager, rule.forward_queue_manager),
                keep_header=rule.keep_header,
                alternate_user=user,
            )
        case Action.DISCARD:
            return Discard()
        case Action.IGNORE:
            return Ignore()
        case _:
            assert_never(rule.action)


def matchers(rules: Sequence[Rule]) -> tuple[Matcher, ...]:
    """Return the rules of a table as `Matcher` objects."""
    return tuple(matcher(rule) for rule in rules)
