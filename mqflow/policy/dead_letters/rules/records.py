"""The content of a rules table, and the problems of its text, as frozen records.

This module knows no text and no message. `parser` makes the records, `printer` writes them as text,
`policy.dead_letters.actions` applies them.
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

# No queue name has an ampersand, so these references cannot be mistaken for names.
DESTINATION_QUEUE: Final = "&DESTQ"
"""A reference in FWDQ to the queue that the MQDLH names."""
REPLY_QUEUE: Final = "&REPLYQ"
"""A reference in FWDQ to the reply queue in the message descriptor."""
DESTINATION_QUEUE_MANAGER: Final = "&DESTQM"
"""A reference in FWDQM to the queue manager that the MQDLH names."""
REPLY_QUEUE_MANAGER: Final = "&REPLYQM"
"""A reference in FWDQM to the reply queue manager in the message descriptor."""


class Action(Enum):
    """ACTION: the action on a message that matches the rule."""

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
    """One condition of a rule: a field, and the value that the field must have."""

    field: Field
    #: A number that the field must equal, or a text pattern with ``*`` and ``?``, without trailing blanks.
    value: str | int


class Control(Struct, frozen=True, kw_only=True):
    """The control-data entry, which has the settings of the whole table."""

    #: INPUTQ; empty for the dead-letter queue of the queue manager.
    input_queue: str = ""
    #: INPUTQM; empty for the default queue manager.
    input_queue_manager: str = ""
    #: RETRYINT, seconds.
    retry_interval_s: int = RETRY_INTERVAL_S
    #: WAIT: the seconds to wait for new work. None (YES) waits forever, 0 (NO) ends immediately.
    wait_s: int | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule. It matches if all its conditions hold. A rule without conditions matches every message."""

    conditions: tuple[Condition, ...] = ()
    action: Action
    #: FWDQ, only with FWD: a queue name, `DESTINATION_QUEUE` or `REPLY_QUEUE`.
    forward_queue: str = ""
    #: FWDQM, only with FWD: a queue manager name, `DESTINATION_QUEUE_MANAGER` or `REPLY_QUEUE_MANAGER`; empty for the local
    #: queue manager.
    forward_queue_manager: str = ""
    #: HEADER, only with FWD: true if the MQDLH stays on the message.
    keep_header: bool = True
    put_authority: PutAuthority = PutAuthority.DEF
    #: RETRY: the number of attempts of this rule.
    attempts_max: int = 1
    #: The line in the table where the rule begins, from 1; 0 for a rule that is not in a table.
    line: int = 0


class RulesTable(Struct, frozen=True):
    """A complete and valid rules table."""

    rules: tuple[Rule, ...]
    control: Control = Control()


class Problem(Struct, frozen=True):
    """A mistake in the text of a table, with its place."""

    #: Sentences that name the mistake and the accepted values.
    text: str
    #: The line and the column of the first wrong character, both from 1.
    line: int
    column: int
    #: The whole text of the line.
    source: str
    #: The number of the message that IBM's handler writes for this mistake, without "AMQ"; 0 if the number is not known.
    number: int = 0

    def __str__(self) -> str:
        number = f"AMQ{self.number}: " if self.number else ""
        return f"line {self.line}, column {self.column}: {number}{self.text}"


class RulesError(ValueError):
    """The text of a table has errors, so no rule of the table is used."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)

    def __str__(self) -> str:
        count = len(self.problems)
        counted = "There is 1 error" if count == 1 else f"There are {count} errors"
        return "\n".join((f"{counted} in the rules table, and no message was touched.", *map(str, self.problems)))
