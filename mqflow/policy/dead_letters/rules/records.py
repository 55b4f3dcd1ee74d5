"""The content of a rules table, and the problems of its text, as frozen records.

This module knows no text and no message: `parser` reads the records, `printer` writes them, `policy.dead_letters.actions`
applies them.
Source: IBM q005670, q005680, q005590.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from mqflow.policy.dead_letters.rules.vocabulary import Field

__all__ = (
    "DESTINATION_QUEUE",
    "DESTINATION_QUEUE_MANAGER",
    "REPLY_QUEUE",
    "REPLY_QUEUE_MANAGER",
    "RETRY_INTERVAL_S",
    "Action",
    "Condition",
    "Control",
    "Problem",
    "PutAuthority",
    "Rule",
    "RulesError",
    "RulesTable",
)

RETRY_INTERVAL_S: Final = 60
"""The default of RETRYINT."""

# No queue has an ampersand in its name, so a reference can take the place of a name.
DESTINATION_QUEUE: Final = "&DESTQ"
"""FWDQ: the queue that the MQDLH names."""
REPLY_QUEUE: Final = "&REPLYQ"
"""FWDQ: the queue that the descriptor names for replies."""
DESTINATION_QUEUE_MANAGER: Final = "&DESTQM"
"""FWDQM: the queue manager that the MQDLH names."""
REPLY_QUEUE_MANAGER: Final = "&REPLYQM"
"""FWDQM: the queue manager that the descriptor names for replies."""


class Action(Enum):
    """ACTION: the action on a message that matches."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    """Put the message to the queue that the MQDLH names, without the MQDLH."""
    FWD = "FWD"


class PutAuthority(Enum):
    """PUTAUT: the user whose authority a put needs."""

    DEF = "DEF"
    """The user who runs the handler."""
    CTX = "CTX"
    """The user in the context of the message."""


class Condition(Struct, frozen=True):
    """One pattern keyword: a field and the value it must have."""

    field: Field
    #: A number, which the field must equal; or a pattern for text with ``*`` and ``?``, without trailing blanks.
    value: str | int


class Control(Struct, frozen=True, kw_only=True):
    """The control-data entry."""

    #: INPUTQ; empty for the dead-letter queue of the queue manager.
    input_queue: str = ""
    #: INPUTQM; empty for the default queue manager.
    input_queue_manager: str = ""
    #: RETRYINT, seconds.
    retry_interval_s: int = RETRY_INTERVAL_S
    #: WAIT: the seconds to wait for new work; None (YES) to wait forever, 0 (NO) to end immediately.
    wait_s: int | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule. It matches if every condition holds; without conditions it matches every message."""

    conditions: tuple[Condition, ...] = ()
    action: Action
    #: FWDQ, with FWD only: a name, `DESTINATION_QUEUE` or `REPLY_QUEUE`.
    forward_queue: str = ""
    #: FWDQM, with FWD only: a name, `DESTINATION_QUEUE_MANAGER`, `REPLY_QUEUE_MANAGER`; empty for the local queue manager.
    forward_queue_manager: str = ""
    #: HEADER, with FWD only: whether the MQDLH stays on the message.
    keep_header: bool = True
    put_authority: PutAuthority = PutAuthority.DEF
    #: RETRY: the number of attempts of this rule.
    attempts_max: int = 1
    #: The line of the table at which the rule begins, from 1; 0 for a rule without a table.
    line: int = 0


class RulesTable(Struct, frozen=True):
    """A complete, valid table."""

    rules: tuple[Rule, ...]
    control: Control = Control()


class Problem(Struct, frozen=True):
    """A mistake in a table, with its place."""

    #: The mistake, and the accepted values, as sentences.
    text: str
    #: The place of the first wrong character, from 1.
    line: int
    column: int
    #: The whole line.
    source: str
    #: The number of IBM's message for the mistake, without AMQ; 0 if it is not known.
    number: int = 0

    def __str__(self) -> str:
        number = f"AMQ{self.number}: " if self.number else ""
        return f"line {self.line}, column {self.column}: {number}{self.text}"


class RulesError(ValueError):
    """A table has errors; no part of it is used."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        counted = "There is 1 error" if count == 1 else f"There are {count} errors"
        return "\n".join((f"{counted} in the rules table, and no message was touched.", *map(str, self.problems)))
