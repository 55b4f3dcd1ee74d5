"""Rules tables of the DLQ handler: parses a text into rules, finds the place of every error, and prints rules as text.

The functions are pure, and take time linear in the length of the text. `policy.dead_letters.actions` applies the rules to
messages.
Source: IBM "Processing the DLQ rules table" and its neighbours: q005670 (control data), q005680 (patterns), q005590 (actions),
q005690 (conventions).

No module here imports `mqflow.mqi.descriptor` or `mqflow.mqi.headers`.
"""

from mqflow.policy.dead_letters.rules.parser import parse
from mqflow.policy.dead_letters.rules.printer import printed
from mqflow.policy.dead_letters.rules.records import (
    DESTINATION_QUEUE,
    DESTINATION_QUEUE_MANAGER,
    REPLY_QUEUE,
    REPLY_QUEUE_MANAGER,
    Action,
    Condition,
    Control,
    Problem,
    PutAuthority,
    Rule,
    RulesError,
    RulesTable,
)

__all__ = (
    "DESTINATION_QUEUE",
    "DESTINATION_QUEUE_MANAGER",
    "REPLY_QUEUE",
    "REPLY_QUEUE_MANAGER",
    "Action",
    "Condition",
    "Control",
    "Problem",
    "PutAuthority",
    "Rule",
    "RulesError",
    "RulesTable",
    "parse",
    "printed",
)
