"""The outcome of a handler decides the next step for the message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.poison.backout import Plan
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Interrupted, Outcome, Requeue, Return, Undecodable
from mqflow.policy.poison.settlement import Dispose, Done, Redeliver, after, dead_letter_reason

FAILED = Failed("builtins.ValueError", "no such flight")
REJECTED = Failed("mqflow.Reject", "a flight to where it starts", final=True)
UNDECODABLE = Undecodable("msgspec.ValidationError", "Object missing required field `arr_delay`")
INTERRUPTED = Interrupted("the drain ran out of time")

DELIVER: Plan = (Deliver(),)
AT_THRESHOLD: Plan = (Requeue("ORDERS.BOQ"), Return("nothing took it"))
DISPOSED: Plan = (Requeue("ORDERS.REJECTED"), Return("nothing took it"))

failures = st.builds(
    Failed, st.text(), st.text(), final=st.booleans(), retry_after_s=st.none() | st.floats(0, 3600, allow_nan=False)
)
outcomes = st.builds(Completed) | failures | st.builds(Undecodable, st.text(), st.text()) | st.builds(Interrupted, st.text())
plans = st.sampled_from([DELIVER, AT_THRESHOLD])


def test_nothing_follows_for_a_message_whose_handler_returned() -> None:
    assert Done() == after(Completed(), decided=AT_THRESHOLD, disposed=DISPOSED, pause_s=0.1)


def test_a_failure_below_the_threshold_is_redelivered_after_the_pace_s_pause() -> None:
    assert Redeliver(0.1) == after(FAILED, decided=DELIVER, disposed=DISPOSED, pause_s=0.1)


def test_a_failure_that_reaches_the_threshold_is_disposed_of_without_another_delivery() -> None:
    assert Dispose(AT_THRESHOLD) == after(FAILED, decided=AT_THRESHOLD, disposed=DISPOSED, pause_s=0.1)


def test_a_rejected_message_is_disposed_of_at_once_though_its_count_would_allow_more() -> None:
    assert Dispose(DISPOSED) == after(REJECTED, decided=DELIVER, disposed=DISPOSED, pause_s=0.1)


@pytest.mark.parametrize("wished_s", [0.0, 2.5])
def test_a_handler_s_own_wish_replaces_the_pace_s_pause(wished_s: float) -> None:
    outcome = Failed("mqflow.Retry", retry_after_s=wished_s)

    assert Redeliver(wished_s) == after(outcome, decided=DELIVER, disposed=DISPOSED, pause_s=0.1)


def test_a_handler_s_wish_to_try_again_does_not_lift_the_threshold() -> None:
    outcome = Failed("mqflow.Retry", retry_after_s=2.5)

    assert Dispose(AT_THRESHOLD) == after(outcome, decided=AT_THRESHOLD, disposed=DISPOSED, pause_s=0.1)


def test_a_body_that_cannot_be_decoded_is_disposed_of_at_once() -> None:
    assert Dispose(DISPOSED) == after(UNDECODABLE, decided=DELIVER, disposed=DISPOSED, pause_s=0.1)


@pytest.mark.parametrize(("decided", "expected"), [(DELIVER, Redeliver(0.1)), (AT_THRESHOLD, Dispose(AT_THRESHOLD))])
def test_a_body_that_cannot_be_decoded_is_redelivered_up_to_the_threshold_when_asked(decided: Plan, expected: object) -> None:
    assert expected == after(UNDECODABLE, decided=decided, disposed=DISPOSED, pause_s=0.1, redeliver_undecodable=True)


@given(plans, st.booleans())
def test_an_interrupted_handling_never_disposes_and_never_pauses(decided: Plan, redeliver: bool) -> None:  # noqa: FBT001 - drawn
    follows = after(INTERRUPTED, decided=decided, disposed=DISPOSED, pause_s=0.1, redeliver_undecodable=redeliver)

    assert Redeliver(0.0) == follows


@given(outcomes, plans, st.booleans())
def test_only_a_committed_message_is_done_with(outcome: Outcome, decided: Plan, redeliver: bool) -> None:  # noqa: FBT001 - drawn
    follows = after(outcome, decided=decided, disposed=DISPOSED, pause_s=0.1, redeliver_undecodable=redeliver)

    assert isinstance(outcome, Completed) == isinstance(follows, Done)


@given(outcomes, plans)
def test_no_message_is_disposed_of_by_a_plan_that_delivers(outcome: Outcome, decided: Plan) -> None:
    follows = after(outcome, decided=decided, disposed=DISPOSED, pause_s=0.1, redeliver_undecodable=True)

    assert Dispose(DELIVER) != follows


@pytest.mark.parametrize(
    ("outcome", "expected"), [(UNDECODABLE, 2364), (FAILED, 2362), (REJECTED, 2362)], ids=["undecodable", "failed", "rejected"]
)
def test_a_dead_lettered_message_says_whether_it_could_not_be_read_or_not_be_handled(outcome: Outcome, expected: int) -> None:
    assert expected == dead_letter_reason(outcome)
