"""Computes which actions rules tables would take on the dead letters in the tables. The rules decide as in `mqflow dlq run`."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mqflow.cli.dead_letters.check import intent_text
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.pipeline.history.history_tables import LetterKind
from mqflow.pipeline.history.weekly_groups import Failure
from mqflow.policy.dead_letters.actions import DeadLetter, choose, matchers
from mqflow.policy.dead_letters.rules import RulesTable

__all__ = ("rule_answers",)

_DESCRIPTOR = {
    "msg_type": "message_type",
    "persistence": "persistence",
    "put_appl_name": "put_application_name",
    "put_appl_type": "put_application_type",
    "user_id": "user_identifier",
    "reply_q": "reply_to_queue",
    "reply_qm": "reply_to_queue_manager",
    "feedback": "feedback",
    "appl_identity_data": "application_identity_data",
}
_HEADER = {
    "dlh_reason": "reason",
    "dlh_dest_q": "destination_queue",
    "dlh_dest_qm": "destination_queue_manager",
    "dlh_format": "format",
}


def rule_answers(table: RulesTable, kinds: Iterable[LetterKind]) -> dict[Failure, Counter[str]]:
    """Return for each failure group the first actions on its dead letters, in words, each with the number of dead letters."""
    rules = matchers(table.rules)
    answers: dict[Failure, Counter[str]] = {}
    for kind in kinds:
        chosen = choose(rules, _letter(kind), 0)
        name = chosen.matcher.name if chosen.matcher else "no rule"
        answers.setdefault(kind.failure, Counter())[f"{name}: {intent_text(chosen.intent)}"] += kind.messages
    return answers


def _letter(kind: LetterKind) -> DeadLetter:
    return DeadLetter(MessageDescriptor(**_fields(kind, _DESCRIPTOR)), DeadLetterHeader(**_fields(kind, _HEADER)), b"")


def _fields(kind: LetterKind, names: dict[str, str]) -> dict[str, Any]:  # Any: texts and numbers
    return {field: kind.fields[column] for column, field in names.items() if column in kind.fields}
