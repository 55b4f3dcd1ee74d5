"""Parses a rules table. The result is the table as records, or a list of all errors with their places.

This module is pure. For any text it returns a table or problems, and raises no exception; the time is linear in the length of
the text. The parser reports a mistake once: it does not check the parts that it cannot read because of another mistake.
Source: IBM q005670, q005680, q005590, q005690; for the message numbers the behaviour of IBM's sample program amqsdlq.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from msgspec import Struct

from mqflow.mqi.lexer import Token, TokenKind, source_lines
from mqflow.policy.dead_letters.rules import records
from mqflow.policy.dead_letters.rules.lexer import entries
from mqflow.policy.dead_letters.rules.values import (
    RefusedValueError,
    Value,
    chosen,
    condition_value,
    forward_queue,
    forward_queue_manager,
    input_name,
    shown,
    whole_number,
)
from mqflow.policy.dead_letters.rules.vocabulary import ACTION_KEYWORDS, CONTROL_KEYWORDS, PATTERNS, Field
from mqflow.policy.did_you_mean import hint

__all__ = ("parse",)

_PATTERN_KEYWORDS: Final = tuple(each.value for each in PATTERNS)
_RULE_KEYWORDS: Final = (*_PATTERN_KEYWORDS, *ACTION_KEYWORDS)
_KEYWORDS: Final = (*CONTROL_KEYWORDS, *_RULE_KEYWORDS)
_WITH_FWD_ONLY: Final = ("FWDQ", "FWDQM", "HEADER")
_HINTS_MAX: Final = 20
"""The largest number of hints with a similar word: a hint takes long, and a text with more mistakes is no rules table."""

_DUPLICATE: Final = 8753
_COMBINATION: Final = 8759
_NO_INPUT: Final = 8750


def parse(text: str) -> records.RulesTable | tuple[records.Problem, ...]:
    """Return the table in the text, or all its problems in order. If there are problems, no table is returned."""
    reading = _Reading(source_lines(text))
    control: records.Control | None = None
    rules: list[records.Rule] = []
    count = 0
    for count, entry in enumerate(entries(reading.lines), start=1):
        parameters = _Parameters(entry, reading)
        if not parameters.is_control:
            rules.append(_rule(parameters))
        elif count == 1:
            control = _control(parameters)
        else:
            keyword = parameters.first
            problem = f"{shown(keyword.text)} is control data, which only the first entry of a table can be."
            reading.refuse(keyword, problem)
            _control(parameters)
    if not rules:
        problem = "There is no rule: a table needs at least one, such as ACTION(RETRY)."
        end = Token(kind=TokenKind.WORD, text="", line=len(reading.lines), column=1)
        reading.refuse(end, problem, 0 if count else _NO_INPUT)
    if reading.problems:
        return tuple(sorted(reading.problems, key=lambda problem: (problem.line, problem.column)))
    return records.RulesTable(tuple(rules), control or records.Control())


class _Reading:
    """The lines of the table, and the problems that were found so far."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.problems: list[records.Problem] = []

    def refuse(self, token: Token, text: str, number: int = 0) -> None:
        """Add a problem at the place of this token."""
        self.problems.append(records.Problem(text, token.line, token.column, self.lines[token.line - 1], number))

    def nearest(self, word: str, words: Sequence[str]) -> str:
        """Return a hint with the most similar of these words, or an empty text."""
        return hint(word, words) if len(self.problems) < _HINTS_MAX else ""


class _Parameter(Struct, frozen=True):
    """A keyword and the value in its brackets."""

    keyword: Token
    value: Token


class _Parameters:
    """The keywords of an entry with their values. A wrong keyword becomes a problem, and the next keyword is read."""

    def __init__(self, tokens: Sequence[Token], reading: _Reading) -> None:
        self.reading = reading
        self._tokens = tokens
        self._at = 0
        #: The first token of the entry.
        self.first = tokens[0]
        #: The parameters, with keywords in capitals; None for a value that cannot be read.
        self.found: dict[str, _Parameter | None] = {}
        #: True if a part of the entry could not be read. A keyword that seems to be missing may be in that part.
        self.unsure = False
        known = [token.folded for token in self._keywords() if token.folded in _KEYWORDS]
        self.is_control = bool(known) and known[0] in CONTROL_KEYWORDS
        self._read()

    def value(self, word: str, read: Value) -> object | None:
        """Return the value of the keyword, or None if it is missing or refused."""
        parameter = self.found.get(word)
        if parameter is None:
            return None
        try:
            return read(parameter.keyword.folded, parameter.value)
        except RefusedValueError as refused:
            hint = self.reading.nearest(parameter.value.text, refused.hints)
            self.reading.refuse(parameter.value, refused.text + hint, refused.number)
            return None

    def _keywords(self) -> list[Token]:
        """Return the words that stand before an opening bracket."""
        pairs = pairwise(self._tokens)
        return [word for word, bracket in pairs if word.kind is TokenKind.WORD and bracket.kind is TokenKind.OPEN]

    def _kind(self, at: int) -> TokenKind | None:
        return self._tokens[at].kind if at < len(self._tokens) else None

    def _read(self) -> None:
        for at, token in enumerate(self._tokens):
            if at < self._at:  # this word is part of a value or of a mistake
                continue
            self._at = at + 1
            match token.kind:
                case TokenKind.WORD if self._kind(self._at) is TokenKind.OPEN:
                    self._at += 1
                    self._keep(token, self._value(token))
                case TokenKind.WORD if token.folded in _KEYWORDS:
                    self.unsure = True
                    self._keep(token, None)
                    problem = f"{token.folded} needs a value in brackets: {token.folded}(...)."
                    self.reading.refuse(token, problem)
                case TokenKind.QUOTE | TokenKind.MARK:
                    self._refuse_end(token)
                case _:
                    problem = f"A keyword with a value in brackets is expected here, not {shown(token.text)}."
                    hint = self.reading.nearest(token.text, _KEYWORDS) if token.kind is TokenKind.WORD else ""
                    self.reading.refuse(token, problem + hint)
                    self._skip()

    def _skip(self) -> None:
        """Continue at the next keyword with a bracket. The text before it is part of the mistake that was just reported."""
        self.unsure = True
        self._at = next((at for at in range(self._at, len(self._tokens)) if self._ends_mistake(at)), len(self._tokens))

    def _ends_mistake(self, at: int) -> bool:
        match self._tokens[at].kind:
            case TokenKind.QUOTE | TokenKind.MARK:
                return True
            case TokenKind.WORD if self._tokens[at].folded in _KEYWORDS:
                return self._kind(at + 1) is TokenKind.OPEN
            case _:
                return False

    def _refuse_end(self, token: Token) -> None:
        self.unsure = True
        if token.kind is TokenKind.MARK:
            problem = f"The table ends after '{token.text}', which continues the entry on the next line."
        else:
            problem = "The quote is never closed. A quote inside a value is written twice: 'it''s'."
        self.reading.refuse(token, problem)

    def _value(self, keyword: Token) -> Token | None:
        """Return the one value before the closing bracket, or None if there is no valid value."""
        begin, opening = self._at, self._tokens[self._at - 1]
        self._at = next((at for at in range(begin, len(self._tokens)) if not self._is_value(at)), len(self._tokens))
        values = self._tokens[begin : self._at]
        match self._kind(self._at):
            case TokenKind.CLOSE:
                self._at += 1
                return self._only(keyword, opening, values)
            case TokenKind.QUOTE | TokenKind.MARK:
                *_, last = self._tokens
                self._at = len(self._tokens)
                self._refuse_end(last)
            case _:
                self.reading.refuse(opening, f"The bracket of {shown(keyword.folded)} is never closed.")
                self._skip()
        return None

    def _is_value(self, at: int) -> bool:
        match self._tokens[at].kind:
            case TokenKind.STRING:
                return True
            case TokenKind.WORD:
                return self._kind(at + 1) is not TokenKind.OPEN
            case _:
                return False

    def _only(self, keyword: Token, opening: Token, values: Sequence[Token]) -> Token | None:
        match values:
            case [value] if value.text:
                return value
            case [_, second, *_]:
                problem = f"{shown(keyword.folded)} takes one value; write a value with blanks or commas in quotes."
                self.reading.refuse(second, problem)
            case _:
                problem = f"{shown(keyword.folded)} needs a value of at least one character; write a blank as ' '."
                self.reading.refuse(next(iter(values), opening), problem)
        return None

    def _keep(self, keyword: Token, value: Token | None) -> None:
        word = keyword.folded
        accepted = CONTROL_KEYWORDS if self.is_control else _RULE_KEYWORDS
        if word in accepted:
            if word in self.found:
                self.reading.refuse(keyword, f"{word} is in the entry already; each keyword can occur once.", _DUPLICATE)
            else:
                self.found[word] = None if value is None else _Parameter(keyword, value)
        elif word in _KEYWORDS:
            kind = "control data" if self.is_control else "a rule"
            problem = f"{word} cannot be in the same entry as {kind}. {kind.capitalize()} has {', '.join(accepted)}."
            self.reading.refuse(keyword, problem)
        else:
            self.unsure = True
            problem = f"There is no keyword {shown(keyword.text)}.{self.reading.nearest(word, accepted)}"
            self.reading.refuse(keyword, f"{problem} The keywords are {', '.join(accepted)}.")


def _control(parameters: _Parameters) -> records.Control:
    wait_s = parameters.value("WAIT", lambda word, token: whole_number(word, token, 0, ("YES", "NO")))
    interval_s = parameters.value("RETRYINT", lambda word, token: whole_number(word, token, 1))
    return records.Control(
        input_queue=str(parameters.value("INPUTQ", input_name) or ""),
        input_queue_manager=str(parameters.value("INPUTQM", input_name) or ""),
        retry_interval_s=interval_s if isinstance(interval_s, int) else records.RETRY_INTERVAL_S,
        wait_s=0 if wait_s == "NO" else wait_s if isinstance(wait_s, int) else None,
    )


def _rule(parameters: _Parameters) -> records.Rule:
    conditions: list[records.Condition] = []
    for each in Field:
        value = parameters.value(each.value, partial(condition_value, each))
        if isinstance(value, str | int) and not _is_any(value):
            conditions.append(records.Condition(each, value))
    action = _action(parameters)
    attempts = parameters.value("RETRY", lambda word, token: whole_number(word, token, 1))
    authority = parameters.value(
        "PUTAUT", lambda word, token: chosen(word, token, [each.value for each in records.PutAuthority])
    )
    header = parameters.value("HEADER", lambda word, token: chosen(word, token, ("YES", "NO")))
    return records.Rule(
        conditions=tuple(conditions),
        action=action or records.Action.IGNORE,  # the default does not matter: a rule without an ACTION is refused
        forward_queue=str(parameters.value("FWDQ", forward_queue) or ""),
        forward_queue_manager=str(parameters.value("FWDQM", forward_queue_manager) or ""),
        keep_header=header != "NO",
        put_authority=records.PutAuthority.DEF if authority is None else records.PutAuthority(authority),
        attempts_max=attempts if isinstance(attempts, int) else 1,
        line=parameters.first.line,
    )


def _is_any(value: str | int) -> bool:
    """Return whether the pattern consists of asterisks only, and so matches every field."""
    return isinstance(value, str) and bool(value) and not value.strip("*")


def _action(parameters: _Parameters) -> records.Action | None:
    """Return the action. If it is not FWD, report the keywords that only FWD can have."""
    accepted = [each.value for each in records.Action]
    if "ACTION" not in parameters.found:
        if not parameters.unsure:
            problem = f"The rule has no ACTION: it needs one of {', '.join(f'ACTION({word})' for word in accepted)}."
            parameters.reading.refuse(parameters.first, problem)
        return None
    word = parameters.value("ACTION", lambda keyword, token: chosen(keyword, token, accepted))
    if word is None:
        return None
    action = records.Action(word)
    if action is records.Action.FWD:
        if "FWDQ" not in parameters.found and not parameters.unsure:
            problem = "ACTION(FWD) needs FWDQ: the name of a queue, &DESTQ or &REPLYQ."
            parameters.reading.refuse(parameters.first, problem, _COMBINATION)
        return action
    for keyword in _WITH_FWD_ONLY:
        parameter = parameters.found.get(keyword)
        if parameter is not None:
            problem = f"{keyword} goes with ACTION(FWD) only, not with ACTION({action.value})."
            parameters.reading.refuse(parameter.keyword, problem, _COMBINATION)
    return action
