"""Decides what `mqflow spark stream` does next: run a stage, wait, end, or give up.

A round brings the tables up to date, one stage after the other. If a stage fails, it runs again after a growing pause, before
any later stage runs. So a later stage never reads a table that is half done. Pure: times and random numbers are arguments.
"""

from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from mqflow.policy.poison.redelivery_delay import Pace, pause_s
from mqflow.policy.stream.failures import Failure, Kind

__all__ = (
    "ATTEMPTS_MAX",
    "ORDER",
    "Action",
    "End",
    "GiveUp",
    "Limits",
    "Position",
    "Run",
    "Stage",
    "Taken",
    "Wait",
    "after_failure",
    "after_stage",
    "next_action",
)


class Stage(StrEnum):
    """A stage of a round."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"
    ALERTS = "alerts"


ORDER: Final = tuple(Stage)
"""The stages of a round, in their order."""
ATTEMPTS_MAX: Final = 8


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a stream."""

    #: Seconds from the start of one round to the start of the next.
    every_s: float = 30.0
    #: True to end when the tables have everything that is in the journal.
    once: bool = False
    #: After this many failures of one stage in a row, the stream gives up.
    attempts_max: int = ATTEMPTS_MAX
    #: The pauses after failures. The pauses of eight attempts together take about two minutes.
    pace: Pace = Pace(first_s=1.0, max_s=60.0)


class Taken(Struct, frozen=True):
    """The result of one stage of a round."""

    #: The rows that the stage has written, or the alerts that it has sent.
    rows: int = 0
    #: True if the stage left work for the next round: rows above its limits, or alerts that a receiver did not accept.
    more: bool = False
    #: Why a receiver did not accept alerts, or which trimmed segments a new table lacks; empty if there is nothing to say.
    said: str = ""


class Position(Struct, frozen=True, kw_only=True):
    """The position of a stream between two steps. The default is the position at the start of a stream."""

    #: The stages that this round still has to run, in order; empty between two rounds.
    due: tuple[Stage, ...] = (Stage.BRONZE,)
    #: The stages that must run in this round even if bronze takes no row, because an earlier process may have left them undone.
    owed: tuple[Stage, ...] = (Stage.SILVER, Stage.GOLD, Stage.ALERTS)
    #: True if the journal has more rows than this round could take.
    more: bool = False
    #: The number of failures in a row of the first stage in `due`.
    failures: int = 0
    #: The last failure of the first stage in `due`; None if it has not failed.
    failure: Failure | None = None
    #: The time when this round began, and the earliest time of the next step. Both are seconds of a monotonic clock.
    began_s: float = 0.0
    not_before_s: float = 0.0


class Run(Struct, frozen=True):
    """Run this stage now."""

    stage: Stage
    #: True if the stage needs a new Spark session.
    renews_session: bool = False


class Wait(Struct, frozen=True):
    """Wait at most this long. A request to stop ends the wait."""

    seconds: float


class End(Struct, frozen=True):
    """The stream ends: a stop was requested, or nothing is left to do."""


class GiveUp(Struct, frozen=True):
    """The stream cannot continue: the last failure of this stage is permanent, or the stage has failed too often."""

    stage: Stage
    failures: int
    failure: Failure


Action: TypeAlias = Run | Wait | End | GiveUp


def next_action(position: Position, limits: Limits, now_s: float, *, stopping: bool) -> Action:
    """Return the next step. A stop takes effect between two stages, also during a pause. Completed stages stay completed."""
    failure = position.failure
    if failure is not None and (failure.kind is Kind.PERMANENT or position.failures >= limits.attempts_max):
        return GiveUp(position.due[0], position.failures, failure)
    if stopping or (not position.due and limits.once and not position.more):
        return End()
    if now_s < position.not_before_s:
        return Wait(position.not_before_s - now_s)
    if not position.due:
        return Run(Stage.BRONZE)
    return Run(position.due[0], failure is not None and failure.kind is Kind.SESSION_LOST)


def after_stage(position: Position, stage: Stage, taken: Taken, limits: Limits, began_s: float) -> Position:
    """Return the position after a stage has succeeded. `began_s` is the time when the stage began.

    A round begins with bronze. If bronze takes no row, only the stages in `Position.owed` follow.
    """
    if stage is Stage.BRONZE:
        due, owed, more = ORDER[1:] if taken.rows else position.owed, position.owed, taken.more
    else:
        due, more, began_s = position.due[1:], position.more, position.began_s
        owed = tuple(each for each in position.owed if each is not stage) + ((stage,) if taken.more else ())
    rests = not due and not more
    return Position(due=due, owed=owed, more=more, began_s=began_s, not_before_s=began_s + limits.every_s if rests else 0.0)


def after_failure(position: Position, failure: Failure, limits: Limits, now_s: float, random: float) -> Position:
    """Return the position after the first stage in `due` has failed. `random` is in [0, 1); it makes the pause vary."""
    failures = position.failures + 1
    return replace(
        position,
        due=position.due or (Stage.BRONZE,),
        failures=failures,
        failure=failure,
        not_before_s=now_s + pause_s(limits.pace, failures, random),
    )
