"""`mqflow why` explains the actions of the DLQ handler."""

import pytest

from mqflow.cli.text.story import sentences
from mqflow.events import DeadLetterActed
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Discard, Ignore, Intent, Redirect

SENTENCES = [
    (Redirect("Q"), "line 3", 0, "The DLQ handler of DLQ put it to Q, by the rule of line 3, attempt 2."),
    (
        Redirect("Q"),
        "line 3",
        Reason.Q_FULL,
        "The DLQ handler of DLQ could not put it to Q (MQRC_Q_FULL (2053)), by the rule of line 3, attempt 2.",
    ),
    (Discard(), "old", 0, "The DLQ handler of DLQ discarded it, by the rule of old, attempt 2."),
    (Ignore(), "line 3", 0, "The DLQ handler leaves it on DLQ: the action of line 3."),
    (Ignore(), "", 0, "The DLQ handler leaves it on DLQ: no further rule matches."),
]


@pytest.mark.parametrize(("intent", "rule", "reason", "expected"), SENTENCES)
def test_an_action_of_the_dlq_handler_is_a_sentence(intent: Intent, rule: str, reason: int, expected: str) -> None:
    event = DeadLetterActed(queue="DLQ", message_id=b"", rule=rule, intent=intent, attempt=2, reason=reason)

    assert [expected] == list(sentences(event))
