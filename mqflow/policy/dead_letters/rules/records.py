"""What a rules table says, as frozen records, and what may be wrong with its text.

Knows no text and no message: `parser` reads, `printer` writes, `policy.dead_letters.actions` applies.
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
"""RETRYINT where the table does not say it."""

# No queue has an ampersand in its name, so the references can stand where names do.
DESTINATION_QUEUE: Final = "&DESTQ"
"""FWDQ: the queue that the MQDLH names."""
REPLY_QUEUE: Final = "&REPLYQ"
"""FWDQ: the queue that the descriptor names for replies."""
DESTINATION_QUEUE_MANAGER: Final = "&DESTQM"
"""FWDQM: the queue manager that the MQDLH names."""
REPLY_QUEUE_MANAGER: Final = "&REPLYQM"
"""FWDQM: the queue manager that the descriptor names for replies."""


class Action(Enum):
    """ACTION: what becomes of a message that matches."""

    DISCARD = "DISCARD"
    IGNORE = "IGNORE"
    RETRY = "RETRY"
    """Put it to the queue that the MQDLH names, without the MQDLH."""
    FWD = "FWD"


class PutAuthority(Enum):
    """PUTAUT: whose authority a put needs."""

    DEF = "DEF"
    """That of the user who runs the handler."""
    CTX = "CTX"
    """That of the user whom the message's context names."""


class Condition(Struct, frozen=True):
    """One pattern keyword: what the field must be."""

    field: Field
    #: For a number: equal to it. For text: a pattern with ``*`` and ``?``, without trailing blanks.
    value: str | int


class Control(Struct, frozen=True, kw_only=True):
    """The control-data entry."""

    #: INPUTQ; empty for the dead-letter queue of the queue manager.
    input_queue: str = ""
    #: INPUTQM; empty for the default queue manager.
    input_queue_manager: str = ""
    #: RETRYINT, seconds.
    retry_interval_s: int = RETRY_INTERVAL_S
    #: WAIT: for how many seconds without new work; None (YES) for ever, 0 (NO) not at all.
    wait_s: int | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """One rule. It matches where every condition holds; without any it matches every message."""

    conditions: tuple[Condition, ...] = ()
    action: Action
    #: FWDQ, with FWD only: a name, `DESTINATION_QUEUE` or `REPLY_QUEUE`.
    forward_queue: str = ""
    #: FWDQM, with FWD only: a name, `DESTINATION_QUEUE_MANAGER`, `REPLY_QUEUE_MANAGER`; empty for the local queue manager.
    forward_queue_manager: str = ""
    #: HEADER, with FWD only: whether the MQDLH stays on the message.
    keep_header: bool = True
    put_authority: PutAuthority = PutAuthority.DEF
    #: RETRY: how many attempts this rule is good for.
    attempts_max: int = 1
    #: In which line of the table it begins, from 1; 0 for a rule that stands in none.
    line: int = 0


class RulesTable(Struct, frozen=True):
    """A whole table, valid."""

    rules: tuple[Rule, ...]
    control: Control = Control()


class Problem(Struct, frozen=True):
    """Something wrong with a table, and where."""

    #: What is wrong, and what is accepted, in sentences.
    text: str
    #: Of the first character of what is wrong, from 1.
    line: int
    column: int
    #: The whole line.
    source: str
    #: The number of IBM's message for it, without its AMQ; 0 where that is not known.
    number: int = 0

    def __str__(self) -> str:
        number = f"AMQ{self.number}: " if self.number else ""
        return f"line {self.line}, column {self.column}: {number}{self.text}"


class RulesError(ValueError):
    """A table has errors; nothing of it is used."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        count = len(self.problems)
        said = "There is 1 error" if count == 1 else f"There are {count} errors"
        return "\n".join((f"{said} in the rules table, and no message was touched.", *map(str, self.problems)))
