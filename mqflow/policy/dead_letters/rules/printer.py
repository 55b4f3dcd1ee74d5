"""Prints a rules table as text. `parser` reads this text back as the same table.

This module is pure. It leaves out a keyword with its default value, and breaks a rule into lines of at most 72 characters.
Source: IBM q005690.
"""

import re
from collections.abc import Iterator
from typing import Final

from mqflow.policy.dead_letters.rules.lexer import LINE_CHARS_PORTABLE
from mqflow.policy.dead_letters.rules.records import Action, Control, PutAuthority, Rule, RulesTable
from mqflow.policy.dead_letters.rules.vocabulary import PATTERNS, symbols_of

__all__ = ("printed", "printed_rule")

_UNQUOTED: Final = re.compile(r"[A-Z0-9./_%*?&]+")


def printed(table: RulesTable) -> str:
    """Return the table as text, one entry on a line if it fits."""
    control = _continued(list(_control(table.control)))
    return "".join(f"{entry}\n" for entry in (control, *map(printed_rule, table.rules)) if entry)


def printed_rule(rule: Rule) -> str:
    """Return the rule as text, without a line end."""
    return _continued(list(_parameters(rule)))


def _control(control: Control) -> Iterator[str]:
    if control == Control():
        return
    # All keywords are written, because an entry without its defaults could be empty.
    yield f"INPUTQ({_quoted(control.input_queue or ' ')})"
    yield f"INPUTQM({_quoted(control.input_queue_manager or ' ')})"
    yield f"RETRYINT({control.retry_interval_s})"
    yield f"WAIT({'YES' if control.wait_s is None else control.wait_s or 'NO'})"


def _parameters(rule: Rule) -> Iterator[str]:
    for condition in rule.conditions:
        if isinstance(condition.value, int):
            yield f"{condition.field.value}({_symbol(PATTERNS[condition.field].prefixes, condition.value)})"
        else:
            yield f"{condition.field.value}({_quoted(condition.value or ' ')})"
    yield f"ACTION({rule.action.value})"
    if rule.action is Action.FWD:
        yield f"FWDQ({_quoted(rule.forward_queue)})"
        if rule.forward_queue_manager:
            yield f"FWDQM({_quoted(rule.forward_queue_manager)})"
        if not rule.keep_header:
            yield "HEADER(NO)"
    if rule.put_authority is PutAuthority.CTX:
        yield "PUTAUT(CTX)"
    if rule.attempts_max > 1:
        yield f"RETRY({rule.attempts_max})"


def _continued(parameters: list[str]) -> str:
    lines = parameters[:1]
    for parameter in parameters[1:]:
        longer = f"{lines[-1]} {parameter}"
        if len(f"{longer} +") > LINE_CHARS_PORTABLE:
            lines.append(f"  {parameter}")
        else:
            lines[-1] = longer
    return " +\n".join(lines)


def _symbol(prefixes: tuple[str, ...], number: int) -> str:
    """Return the first symbolic name of the number. If the number has no such name, return the number."""
    names = (name for prefix in prefixes for name, value in symbols_of(prefix).items() if value == number)
    return next(names, str(number))


def _quoted(text: str) -> str:
    if _UNQUOTED.fullmatch(text):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
