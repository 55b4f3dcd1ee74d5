"""The warning about a queue at the start of its listener: it says what really becomes of a poison message."""

import pytest

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.policy.poison.backout import BEHAVIOURS
from mqflow.policy.poison.disposition import Behaviour
from mqflow.policy.poison.queue_warning import queue_warning

NO_THRESHOLD = (
    "IN has no backout threshold, so a message that always fails is redelivered for ever. "
    "ALTER QLOCAL('IN') BOTHRESH(3) BOQNAME('...') ends that, or Backout(threshold=3, queue=...)."
)
NO_THRESHOLD_COUNTS = (
    "With the behaviour plain-mqi, no message of IN is poison, whatever its backout count is. A message that always fails is "
    "redelivered for ever, unless its handler rejects it. Backout(behaviour=...) changes that."
)
OWN_QUEUE = (
    "BOQNAME of IN is IN, the queue itself, so it is not used: a moved message would begin again with a backout count of 0. "
    "ALTER QLOCAL('IN') BOQNAME('...') changes that."
)
PAUSES = "A poison message stays on its queue, and the listener pauses."
STOPS = "A poison message stays on its queue, and delivery stops."
DISCARDED = "A poison message is discarded."
DEPENDS = "A persistent poison message stays on its queue, and delivery stops. Any other poison message is discarded."
FATES = {
    Behaviour.JMS_LISTENER: PAUSES, Behaviour.JMS_CONSUMER: DISCARDED, Behaviour.JMS_CONSUMER_NOT_TRANSACTED: DISCARDED,
    Behaviour.CONNECTION_CONSUMER: DEPENDS, Behaviour.APPLICATION_SERVER: STOPS, Behaviour.BROKER_INPUT_NODE: PAUSES,
}  # fmt: skip


def warning(threshold: int, boq: str, dlq: str | None, behaviour: Behaviour) -> str:
    attributes = QueueAttributes(name="IN", backout_threshold=threshold, backout_requeue_queue=boq)
    return queue_warning("IN", attributes, dlq, behaviour, defined_as="QLOCAL('IN')")


def no_queue(fate: str) -> str:
    return (
        f"IN has no backout requeue queue, and the queue manager has no dead-letter queue. {fate} "
        "ALTER QLOCAL('IN') BOQNAME('...') changes that."
    )


@pytest.mark.parametrize("behaviour", FATES)
def test_without_any_queue_the_warning_says_what_becomes_of_a_poison_message(behaviour: Behaviour) -> None:
    assert no_queue(FATES[behaviour]) == warning(3, "", "", behaviour)


@pytest.mark.parametrize("behaviour", FATES)
def test_a_threshold_of_zero_is_a_warning_only_if_no_message_is_ever_poison(behaviour: Behaviour) -> None:
    is_one = behaviour is Behaviour.BROKER_INPUT_NODE  # "BOTHRESH is 0 ...: one delivery, as with BOTHRESH(1)"

    assert ("" if is_one else NO_THRESHOLD) == warning(0, "BAD", "DLQ", behaviour)
    assert (no_queue(PAUSES) if is_one else NO_THRESHOLD) == warning(0, "", "", behaviour)


@pytest.mark.parametrize("threshold", [0, 1, 3])
@pytest.mark.parametrize("boq", ["", "BAD", "IN"])
def test_a_plain_mqi_program_is_warned_that_no_threshold_counts(threshold: int, boq: str) -> None:
    assert NO_THRESHOLD_COUNTS == warning(threshold, boq, "DLQ", Behaviour.PLAIN_MQI)


@pytest.mark.parametrize("behaviour", FATES)
@pytest.mark.parametrize("dlq", ["", "DLQ"])
def test_a_queue_that_is_its_own_backout_requeue_queue_is_a_warning(behaviour: Behaviour, dlq: str) -> None:
    assert OWN_QUEUE == warning(3, "IN", dlq, behaviour)


@pytest.mark.parametrize("behaviour", FATES)
@pytest.mark.parametrize(("boq", "dlq"), [("BAD", ""), ("", "DLQ"), ("", None)])
def test_there_is_no_warning_if_a_queue_can_take_poison_messages(boq: str, dlq: str | None, behaviour: Behaviour) -> None:
    assert warning(3, boq, dlq, behaviour) == ""


def test_the_table_has_every_behaviour_that_compares_counts() -> None:
    assert {each for each, rules in BEHAVIOURS.items() if rules.automatic} == set(FATES)
