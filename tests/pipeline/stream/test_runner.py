"""The loop of a stream, with stages that a test makes succeed or fail, in virtual time."""

from collections.abc import Iterator, Sequence

import pytest
from msgspec import Struct, field

from mqflow.pipeline.stream.runner import Ran, StageFailed, StreamError, StreamStep, Waits, keep_up, said, text_of
from mqflow.pipeline.tables.table_set import TableSet
from mqflow.policy.poison.redelivery_delay import Pace
from mqflow.policy.stream.failures import Kind
from mqflow.policy.stream.rounds import Limits, Stage, Taken
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.world import World

LIMITS = Limits(every_s=30, once=True, attempts_max=3, pace=Pace(first_s=1, max_s=60, jitter=0))
WORKER = RuntimeError("Python worker failed to connect back.")
JVM = ConnectionRefusedError("[Errno 111] Connection refused")


class Stages(Struct):
    """Stages that follow a plan: each call takes the next result of its stage, then `Taken()`."""

    plan: dict[Stage, list[Taken | Exception]]
    clock: VirtualClock = field(default_factory=VirtualClock)
    ran: list[Stage] = field(default_factory=list[Stage])
    steps: list[StreamStep] = field(default_factory=list[StreamStep])
    renewed: int = 0
    stops_after: int = 1_000

    def run(self, stage: Stage) -> Taken:
        self.ran.append(stage)
        self.clock.advance(2)
        result = next(iter(self.plan.get(stage, ())), Taken())
        del self.plan.get(stage, [])[:1]
        if isinstance(result, Exception):
            raise result
        return result

    def renew(self) -> None:
        self.renewed += 1

    def keep_up(self, limits: Limits = LIMITS) -> bool:
        return keep_up(
            self.run, renew_session=self.renew, limits=limits, world=World(clock=self.clock), pause=self.clock.advance,
            stopping=lambda: len(self.ran) >= self.stops_after, tell=self.steps.append,
        )  # fmt: skip

    def failures(self) -> Sequence[tuple[Stage, int, float | None]]:
        return [(each.stage, each.failures, each.pause_s) for each in self.steps if isinstance(each, StageFailed)]


def test_once_runs_each_stage_and_ends() -> None:
    stages = Stages({Stage.BRONZE: [Taken(7)]})

    owes = stages.keep_up()

    assert not owes
    assert [*Stage] == stages.ran
    assert Ran(Stage.BRONZE, Taken(7), 2.0) == stages.steps[0]


def test_a_transient_failure_is_tried_again_in_the_same_session_after_a_growing_pause() -> None:
    stages = Stages({Stage.SILVER: [WORKER, WORKER, Taken()]})

    stages.keep_up()

    assert [(Stage.SILVER, 1, 1.0), (Stage.SILVER, 2, 2.0)] == stages.failures()
    assert [Stage.BRONZE, *[Stage.SILVER] * 3, Stage.GOLD, Stage.ALERTS] == stages.ran
    assert 0 == stages.renewed


def test_a_second_writer_of_the_tables_such_as_optimize_does_not_end_the_stream() -> None:
    stages = Stages({Stage.SILVER: [TableSet("/tables/silver").busy("attempt")]})

    assert not stages.keep_up()

    assert [Stage.BRONZE, Stage.SILVER, Stage.SILVER, Stage.GOLD, Stage.ALERTS] == stages.ran


def test_a_session_that_was_lost_is_made_again_before_the_next_attempt() -> None:
    stages = Stages({Stage.GOLD: [JVM, Taken()]})

    stages.keep_up()

    assert 1 == stages.renewed
    assert [Stage.GOLD, Stage.GOLD, Stage.ALERTS] == stages.ran[2:]


def test_a_session_that_cannot_be_made_again_counts_as_a_failure_and_the_stream_gives_up() -> None:
    class Refusing(Stages):
        def renew(self) -> None:
            raise JVM

    stages = Refusing({Stage.BRONZE: [JVM]})

    with pytest.raises(StreamError, match=r"The stage bronze failed 3 times in a row, and the stream gives up. .*refused"):
        stages.keep_up()

    assert [Stage.BRONZE] == stages.ran
    assert {Kind.SESSION_LOST} == {each.failure.kind for each in stages.steps if isinstance(each, StageFailed)}


def test_a_permanent_failure_ends_the_stream_with_its_sentence() -> None:
    stages = Stages({Stage.BRONZE: [ValueError("Segment 3 is damaged.")]})

    with pytest.raises(
        StreamError, match=r"The stage bronze failed, and another attempt cannot succeed: Segment 3 is damaged\."
    ):
        stages.keep_up()

    assert [Stage.BRONZE] == stages.ran
    assert [(Stage.BRONZE, 1, None)] == stages.failures(), "no pause is announced"


def test_the_last_of_the_failures_that_are_allowed_announces_no_pause() -> None:
    stages = Stages({Stage.GOLD: [WORKER] * 3})

    with pytest.raises(StreamError, match="The stage gold failed 3 times in a row"):
        stages.keep_up()

    assert [(Stage.GOLD, 1, 1.0), (Stage.GOLD, 2, 2.0), (Stage.GOLD, 3, None)] == stages.failures()


def test_a_stop_ends_the_stream_after_the_stage_that_runs() -> None:
    stages = Stages({Stage.BRONZE: [Taken(5, more=True)]}, stops_after=2)

    stages.keep_up(Limits(every_s=30))

    assert [Stage.BRONZE, Stage.SILVER] == stages.ran


def test_a_stream_without_an_end_waits_for_its_next_round() -> None:
    stages = Stages({Stage.BRONZE: [Taken(5), Taken(), Taken(3)]}, stops_after=9)

    stages.keep_up(Limits(every_s=30))

    assert [*Stage, Stage.BRONZE, *Stage] == stages.ran
    assert [22.0, 28.0] == [each.seconds for each in stages.steps if isinstance(each, Waits)]


def test_alerts_that_nobody_took_are_owed_at_the_end() -> None:
    stages = Stages({Stage.ALERTS: [Taken(0, more=True, said="The webhook http://x did not take an alert: timed out.")]})

    assert stages.keep_up()


def test_a_stop_in_the_round_after_a_refused_alert_does_not_hide_it() -> None:
    refused = Taken(0, more=True, said="The webhook http://x did not take an alert: timed out.")
    stages = Stages({Stage.BRONZE: [Taken(5), Taken(5)], Stage.ALERTS: [refused]}, stops_after=6)

    assert stages.keep_up(Limits(every_s=30))
    assert [*Stage, Stage.BRONZE, Stage.SILVER] == stages.ran


class _FromADeadJvm(Exception):  # noqa: N818 - like an error of PySpark, whose text comes from the JVM
    def __str__(self) -> str:
        raise JVM


def test_an_error_whose_text_is_in_a_dead_jvm_has_the_text_of_that_second_error() -> None:
    assert "ConnectionRefusedError: [Errno 111] Connection refused" == said(_FromADeadJvm())


def causes() -> Iterator[BaseException]:
    try:
        try:
            raise WORKER
        except RuntimeError as error:
            raise ValueError("Spark failed.") from error
    except ValueError as error:
        yield error


def test_the_causes_of_an_error_decide_too() -> None:
    [error] = causes()

    assert "ValueError: Spark failed.\n\nRuntimeError: Python worker failed to connect back.\n" == text_of(error)
