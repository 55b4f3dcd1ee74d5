"""Properties of every plan, for any message, queue and behaviour."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import (
    BEHAVIOURS,
    Plan,
    decide,
    dispose,
    effective,
    is_poison,
    is_poison_at_first,
    keeping,
    refused,
)
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Requeue, Return

#: JMS itself discards the message here, as its documentation says; the caller chose this behaviour.
STRICT_JMS = {Behaviour.JMS_CONSUMER, Behaviour.JMS_CONSUMER_NOT_TRANSACTED}

behaviours = st.sampled_from(Behaviour)
names = st.sampled_from(["", "ORDERS.IN", "ORDERS.BOQ", "DEAD.LETTERS"])
counts = st.integers(0, 12) | st.integers(0, 2**31 - 1)
reports = st.sampled_from([0, Report.DISCARD_MSG, Report.EXCEPTION, Report.EXCEPTION_WITH_FULL_DATA | Report.DISCARD_MSG])
descriptors = st.builds(
    MessageDescriptor,
    backout_count=counts,
    report=reports,
    persistence=st.sampled_from([Persistence.NOT_PERSISTENT, Persistence.PERSISTENT]),
)
queues = st.builds(
    QueueAttributes,
    name=st.sampled_from(["ORDERS.IN", "DEAD.LETTERS"]),
    backout_threshold=st.integers(0, 6) | st.integers(0, 999_999_999),
    backout_requeue_queue=names,
)


@given(descriptors, queues, names, behaviours)
def test_a_plan_is_never_empty_and_its_last_disposition_needs_no_put(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> None:
    for plan in (
        decide(descriptor, queue, dead_letter_queue, behaviour),
        dispose(descriptor, queue, dead_letter_queue, behaviour),
    ):
        assert isinstance(plan[-1], Deliver | Discard | Return)
        assert all(isinstance(step, Requeue | DeadLetter) for step in plan[:-1])


@given(descriptors, queues, names, behaviours, st.integers(1, 1_000))
def test_once_a_count_stops_delivery_every_higher_count_does(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour, more: int
) -> None:
    plan = decide(descriptor, queue, dead_letter_queue, behaviour)
    later = decide(replace(descriptor, backout_count=descriptor.backout_count + more), queue, dead_letter_queue, behaviour)

    assert plan == (Deliver(),) or plan == later


@given(descriptors, queues, names, behaviours)
def test_a_persistent_message_is_discarded_only_on_request_or_by_a_strict_jms_consumer(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> None:
    plan = dispose(replace(descriptor, persistence=Persistence.PERSISTENT), queue, dead_letter_queue, behaviour)

    allowed = bool(descriptor.report & Report.DISCARD_MSG) or behaviour in STRICT_JMS
    assert allowed or not any(isinstance(step, Discard) for step in plan)


@given(descriptors, queues, behaviours)
def test_a_dead_letter_queue_that_is_not_known_loses_nothing(
    descriptor: MessageDescriptor, queue: QueueAttributes, behaviour: Behaviour
) -> None:
    plan = dispose(descriptor, queue, "", behaviour)
    kept = keeping(plan, descriptor, behaviour)

    asked = bool(descriptor.report & Report.DISCARD_MSG) and BEHAVIOURS[behaviour].discards_on_request
    assert asked == isinstance(kept[-1], Discard)
    assert plan[:-1] == kept[:-1]
    assert kept[-1] == plan[-1] or isinstance(plan[-1], Discard)


def test_an_application_may_discard_also_if_the_dead_letter_queue_is_not_known() -> None:
    plan: Plan = (Requeue("ORDERS.BOQ"), Discard("an order of yesterday"))

    assert plan == keeping(plan, MessageDescriptor(), Behaviour.JMS_CONSUMER)


@given(descriptors, queues, names, behaviours)
def test_no_plan_moves_a_message_to_the_queue_it_came_from_or_to_no_queue(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> None:
    plan = dispose(descriptor, queue, dead_letter_queue, behaviour)

    destinations = [step.queue for step in plan if isinstance(step, Requeue | DeadLetter)]
    assert not {"", queue.name}.intersection(destinations)


@given(descriptors, queues, names, behaviours)
def test_the_backout_requeue_queue_comes_before_the_dead_letter_queue(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> None:
    moves = [type(step) for step in dispose(descriptor, queue, dead_letter_queue, behaviour)[:-1]]

    assert moves in ([], [Requeue], [DeadLetter], [Requeue, DeadLetter])


@given(descriptors, queues, names, behaviours)
def test_a_decision_depends_on_nothing_but_its_arguments(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> None:
    taken_twice = [decide(descriptor, queue, dead_letter_queue, behaviour) for _ in range(2)]

    assert taken_twice[0] == taken_twice[1]


@given(descriptors, queues, names, behaviours, st.integers(2001, 2999))
def test_a_refused_put_shortens_the_plan_by_one_and_changes_no_destination(
    descriptor: MessageDescriptor, queue: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour, reason: int
) -> None:
    plan = dispose(descriptor, queue, dead_letter_queue, behaviour)

    left = refused(plan, reason)

    def destinations(of: Plan) -> list[object]:
        return [step.queue if isinstance(step, DeadLetter) else step for step in of]

    assert destinations(plan[1:]) == destinations(left)
    assert all(reason == step.reason for step in left if isinstance(step, DeadLetter))


@given(counts, st.integers(0, 999_999_999))
def test_poison_is_a_count_that_reached_a_threshold_above_zero(count: int, threshold: int) -> None:
    assert (threshold > 0 and count >= threshold) == is_poison(count, threshold)


@given(st.integers(0, 3), st.sampled_from(Behaviour))
def test_a_first_backout_is_poison_if_the_decision_does_not_deliver_again(threshold: int, behaviour: Behaviour) -> None:
    queue = QueueAttributes(name="ORDERS.IN", backout_threshold=threshold)
    delivers = decide(MessageDescriptor(backout_count=1), queue, "", behaviour) == (Deliver(),)

    assert delivers != is_poison_at_first(queue, behaviour)


def test_every_behaviour_has_rules() -> None:
    assert set(Behaviour) == set(BEHAVIOURS)


ORDERS = QueueAttributes(name="ORDERS.IN", backout_threshold=3, backout_requeue_queue="ORDERS.BOQ")


def test_the_queue_gives_the_settings_that_a_listener_leaves_open() -> None:
    assert (ORDERS, "BOTHRESH of ORDERS.IN", "BOQNAME of ORDERS.IN") == effective(ORDERS, threshold=None, queue=None)


@pytest.mark.parametrize("threshold", [0, 5])
def test_a_listener_s_threshold_goes_before_that_of_the_queue(threshold: int) -> None:
    attributes, threshold_source, queue_source = effective(ORDERS, threshold=threshold)

    assert replace(ORDERS, backout_threshold=threshold) == attributes
    assert ("the listener", "BOQNAME of ORDERS.IN") == (threshold_source, queue_source)


@pytest.mark.parametrize("queue", ["", "ORDERS.REPAIR"])
def test_a_listener_s_backout_requeue_queue_goes_before_that_of_the_queue(queue: str) -> None:
    attributes, threshold_source, queue_source = effective(ORDERS, queue=queue)

    assert replace(ORDERS, backout_requeue_queue=queue) == attributes
    assert ("BOTHRESH of ORDERS.IN", "the listener") == (threshold_source, queue_source)


NEITHER = "neither the backout requeue queue nor the dead-letter queue took it"
STRICT = "the dead-letter queue did not take it; a JMS consumer"


@pytest.mark.parametrize(
    ("behaviour", "persistence", "why"),
    [
        (Behaviour.JMS_LISTENER, Persistence.PERSISTENT, NEITHER),
        (Behaviour.JMS_CONSUMER, Persistence.PERSISTENT, f"{STRICT} loses it when its transaction commits"),
        (Behaviour.JMS_CONSUMER_NOT_TRANSACTED, Persistence.PERSISTENT, f"{STRICT} that is not transacted loses it"),
        (Behaviour.CONNECTION_CONSUMER, Persistence.PERSISTENT, f"{NEITHER}; delivery stops"),
        (Behaviour.CONNECTION_CONSUMER, Persistence.NOT_PERSISTENT, f"not persistent, and {NEITHER}"),
        (Behaviour.APPLICATION_SERVER, Persistence.PERSISTENT, f"{NEITHER}; delivery stops"),
    ],
)
def test_the_plan_states_the_end_of_a_message_that_no_queue_takes(
    behaviour: Behaviour, persistence: Persistence, why: str
) -> None:
    last = dispose(MessageDescriptor(persistence=persistence), ORDERS, "DEAD.LETTERS", behaviour)[-1]

    assert isinstance(last, Discard | Return)
    assert why == last.why


def test_a_plan_says_in_words_that_a_message_is_discarded_because_its_sender_asked_for_that() -> None:
    last = dispose(MessageDescriptor(report=Report.DISCARD_MSG), ORDERS, "DEAD.LETTERS", Behaviour.JMS_LISTENER)[-1]

    assert Discard("its sender asked for it: MQRO_DISCARD_MSG") == last


def test_a_plan_names_its_reason_as_a_plain_number() -> None:
    # Events are stored as JSON, in which a member of an enumeration is one more type.
    plan = dispose(MessageDescriptor(), QueueAttributes(name="Q"), "DEAD.LETTERS", Behaviour.JMS_LISTENER)
    refused_plan = refused((Requeue("B"), *plan), Reason.Q_FULL)

    assert isinstance(plan[0], DeadLetter)
    assert isinstance(refused_plan[0], DeadLetter)
    assert [int, int] == [type(plan[0].reason), type(refused_plan[0].reason)]
