"""The next step of a stream: rounds of stages, pauses after failures, and the ends."""

from typing import assert_never

from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.policy.stream.failures import PERMANENT, Failure, Kind
from mqflow.policy.stream.rounds import (
    ORDER,
    Action,
    End,
    GiveUp,
    Limits,
    Position,
    Run,
    Stage,
    Taken,
    Wait,
    after_failure,
    after_stage,
    next_action,
)

LIMITS = Limits(every_s=30, attempts_max=3, pace=Pace(first_s=1, max_s=60, jitter=0))
ONCE = Limits(every_s=30, once=True, attempts_max=3)
TRANSIENT = Failure(Kind.TRANSIENT, "worker_ended")
LOST = Failure(Kind.SESSION_LOST, "jvm_ended")
NEW, NOTHING, PART = Taken(100), Taken(), Taken(100, more=True)


def following(position: Position, now_s: float = 0.0, *, limits: Limits = LIMITS, stopping: bool = False) -> Action:
    return next_action(position, limits, now_s, stopping=stopping)


def after_round(
    position: Position, bronze: Taken, *, alerts: Taken = NOTHING, limits: Limits = LIMITS
) -> tuple[list[Stage], Position]:
    """Run one round that begins at second 100; return its stages and the position after it."""
    ran: list[Stage] = []
    while isinstance(step := following(position, 100.0, limits=limits), Run):
        if step.stage is Stage.BRONZE and ran:
            break
        ran.append(step.stage)
        taken = {Stage.BRONZE: bronze, Stage.ALERTS: alerts}.get(step.stage, NOTHING)
        position = after_stage(position, step.stage, taken, limits, 100.0)
    return ran, position


def caught_up() -> Position:
    return after_round(Position(), NEW)[1]


def test_the_first_round_runs_every_stage_even_if_bronze_takes_nothing() -> None:
    # An earlier process can have been killed after bronze.
    assert [*ORDER] == after_round(Position(), NOTHING)[0]


def test_a_later_round_in_which_bronze_takes_nothing_ends_there() -> None:
    later = following(caught_up(), 130.0)
    assert Run(Stage.BRONZE) == later

    after = after_stage(caught_up(), Stage.BRONZE, NOTHING, LIMITS, 130.0)
    assert Wait(30.0) == following(after, 130.0)


def test_a_later_round_with_new_rows_runs_every_stage() -> None:
    after = after_stage(caught_up(), Stage.BRONZE, NEW, LIMITS, 130.0)

    assert ORDER[1:] == after.due


def test_a_round_begins_at_its_time_however_long_the_round_before_took() -> None:
    assert Wait(20.0) == following(caught_up(), 110.0)
    assert Run(Stage.BRONZE) == following(caught_up(), 175.0)


def test_a_round_that_left_rows_in_the_journal_is_followed_by_another_at_once() -> None:
    ran, after = after_round(Position(), PART)

    assert [*ORDER] == ran, "silver and gold run in each round, so that they are never far behind"
    assert Run(Stage.BRONZE) == following(after, 100.0)


def test_once_ends_after_the_round_that_left_nothing() -> None:
    _, part = after_round(Position(), PART, limits=ONCE)
    _, all_of_it = after_round(part, NEW, limits=ONCE)

    assert Run(Stage.BRONZE) == following(part, 100.0, limits=ONCE)
    assert End() == following(all_of_it, 100.0, limits=ONCE)


def test_alerts_that_nobody_took_are_sent_in_the_next_round_without_new_rows() -> None:
    _, refused = after_round(Position(), NEW, alerts=Taken(0, more=True))
    assert Wait(30.0) == following(refused, 100.0)

    ran, after = after_round(after_stage(refused, Stage.BRONZE, NOTHING, LIMITS, 100.0), NOTHING)

    assert [Stage.ALERTS] == ran
    assert () == after.owed


def test_a_stage_that_failed_runs_again_after_a_growing_pause_before_any_later_stage() -> None:
    position = after_stage(Position(), Stage.BRONZE, NEW, LIMITS, 0.0)

    first = after_failure(position, TRANSIENT, LIMITS, 5.0, 0.0)
    second = after_failure(first, TRANSIENT, LIMITS, 10.0, 0.0)

    assert Wait(1.0) == following(first, 5.0)
    assert Run(Stage.SILVER) == following(first, 6.0)
    assert Wait(2.0) == following(second, 10.0)


def test_a_lost_session_is_made_again_before_the_next_attempt() -> None:
    lost = after_failure(Position(), LOST, LIMITS, 0.0, 0.0)

    assert Run(Stage.BRONZE, renews_session=True) == following(lost, 60.0)


def test_a_success_ends_the_count_of_failures() -> None:
    failed = after_failure(after_failure(Position(), TRANSIENT, LIMITS, 0.0, 0.0), TRANSIENT, LIMITS, 0.0, 0.0)
    mended = after_stage(failed, Stage.BRONZE, NEW, LIMITS, 0.0)

    assert (0, None) == (mended.failures, mended.failure)
    assert isinstance(following(after_failure(mended, TRANSIENT, LIMITS, 0.0, 0.0), 60.0), Run)


def test_too_many_failures_in_a_row_end_the_stream() -> None:
    position = Position()
    for _ in range(LIMITS.attempts_max):
        position = after_failure(position, TRANSIENT, LIMITS, 0.0, 0.0)

    assert GiveUp(Stage.BRONZE, 3, TRANSIENT) == following(position, 1e9)


def test_a_permanent_failure_ends_the_stream_at_once() -> None:
    assert GiveUp(Stage.BRONZE, 1, PERMANENT) == following(after_failure(Position(), PERMANENT, LIMITS, 0.0, 0.0), 0.0)


def test_a_failure_between_two_rounds_is_one_of_bronze() -> None:
    failed = after_failure(caught_up(), TRANSIENT, LIMITS, 130.0, 0.0)

    assert Run(Stage.BRONZE) == following(failed, 140.0)


def test_a_stop_ends_the_stream_between_two_stages_and_during_a_pause() -> None:
    inside = after_stage(Position(), Stage.BRONZE, NEW, LIMITS, 0.0)
    paused = after_failure(inside, TRANSIENT, LIMITS, 0.0, 0.0)

    assert [End()] * 3 == [following(position, stopping=True) for position in (Position(), inside, paused)]


def test_a_stop_does_not_hide_a_permanent_failure() -> None:
    failed = after_failure(Position(), PERMANENT, LIMITS, 0.0, 0.0)

    assert isinstance(following(failed, stopping=True), GiveUp)


@given(story=st.lists(st.sampled_from(["new", "nothing", "part", "fails", "lost", "refused"]), max_size=60), once=st.booleans())
def test_whatever_happens_every_row_that_bronze_takes_reaches_gold_before_the_end_and_failures_are_bounded(
    story: list[str], *, once: bool
) -> None:
    limits = Limits(every_s=1, once=once, attempts_max=3)
    position, now_s, unseen, failures = Position(), 0.0, {Stage.SILVER: True, Stage.GOLD: True}, 0
    for happening in story:
        action = following(position, now_s, limits=limits)
        match action:
            case Wait(seconds):
                assert seconds > 0
                now_s += seconds
                continue
            case End():
                assert once
                assert not any(unseen.values()), "the stream ended before silver or gold had every row"
                return
            case GiveUp():
                assert limits.attempts_max == failures
                return
            case Run(stage, renews):
                assert renews is (position.failure == LOST)
            case never:
                assert_never(never)
        if happening in {"fails", "lost"}:
            failures += 1
            position = after_failure(position, LOST if happening == "lost" else TRANSIENT, limits, now_s, 0.5)
            continue
        failures = 0
        taken = {"new": NEW, "part": PART}.get(happening, NOTHING) if stage is Stage.BRONZE else NOTHING
        if stage is Stage.ALERTS and happening == "refused":
            taken = Taken(0, more=True)
        if stage is Stage.BRONZE and taken.rows:
            unseen = dict.fromkeys(unseen, True)
        elif stage in unseen:
            unseen[stage] = False
        position = after_stage(position, stage, taken, limits, now_s)
