"""Runs the stages of a stream until it ends, is stopped, or gives up. `mqflow.policy.stream.rounds` decides each step.

This file knows no Spark and no table: the stages are a function, and so are the clock and the pauses.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias, assert_never

from msgspec import Struct

from mqflow.pipeline.errors import PipelineError
from mqflow.policy.stream.failures import Failure, classify
from mqflow.policy.stream.rounds import (
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
from mqflow.world import World

__all__ = ("Ran", "StageFailed", "StreamError", "StreamStep", "Waits", "keep_up")


class Ran(Struct, frozen=True):
    """A stage has succeeded."""

    stage: Stage
    taken: Taken
    seconds: float


class StageFailed(Struct, frozen=True):
    """A stage has failed. The stream tries again after `pause_s`; None means that it gives up."""

    stage: Stage
    failure: Failure
    failures: int
    pause_s: float | None
    error: Exception


class Waits(Struct, frozen=True):
    """The stream waits for the next round or attempt."""

    seconds: float


StreamStep: TypeAlias = Ran | StageFailed | Waits


class StreamError(PipelineError):
    """The stream has given up. The message has the stage, the number of attempts and the last error."""


def keep_up(
    run: Callable[[Stage], Taken],
    *,
    renew_session: Callable[[], None],
    limits: Limits,
    world: World,
    pause: Callable[[float], object],
    stopping: Callable[[], bool],
    tell: Callable[[StreamStep], None],
) -> bool:
    """Run stages until the stream ends. Return True if a receiver did not accept an alert when alerts were sent last.

    `pause` waits at most the given seconds, and less if the stream is stopped. Raises `StreamError` if a failure is permanent,
    or if a stage has failed `attempts_max` times in a row.
    """
    position, last, owes = Position(), Exception(), False
    while True:
        now_s = world.clock.monotonic()
        match next_action(position, limits, now_s, stopping=stopping()):
            case Run() as step:
                try:
                    if step.renews_session:
                        renew_session()
                    taken = run(step.stage)
                except Exception as error:  # noqa: BLE001 - the one place that catches all: the policy decides about each
                    last, failure, ended_s = error, classify(text_of(error)), world.clock.monotonic()
                    position = after_failure(position, failure, limits, ended_s, world.random.random())
                    gives_up = isinstance(next_action(position, limits, ended_s, stopping=False), GiveUp)
                    pause_s = None if gives_up else position.not_before_s - ended_s
                    tell(StageFailed(step.stage, failure, position.failures, pause_s, error))
                else:
                    position = after_stage(position, step.stage, taken, limits, now_s)
                    owes = taken.more if step.stage is Stage.ALERTS else owes
                    tell(Ran(step.stage, taken, world.clock.monotonic() - now_s))
            case Wait(seconds):
                tell(Waits(seconds))
                pause(seconds)
            case GiveUp() as given_up:
                raise _given_up(given_up, last) from last
            case End():
                return owes
            case never:
                assert_never(never)


def text_of(error: BaseException) -> str:
    """Return the text of the error and of its causes, with class names, and with Spark's Java traceback."""
    # getattr: errors of Spark have the traceback in this attribute, other errors do not have it.
    return "\n".join(
        f"{type(each).__name__}: {said(each)}\n{getattr(each, '_stackTrace', '') or ''}" for each in _causes(error)
    )


def said(error: BaseException) -> str:
    """Return the text of the error. Some errors of Spark ask the JVM for their text, and the JVM can have ended."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - any error of the network
        return f"{type(second).__name__}: {second}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        yield cause
        cause = cause.__cause__ or cause.__context__


def _given_up(given_up: GiveUp, error: Exception) -> StreamError:
    text = said(error).strip() or type(error).__name__
    if given_up.failures == 1:
        return StreamError(f"The stage {given_up.stage} failed, and another attempt cannot succeed: {text}")
    return StreamError(f"The stage {given_up.stage} failed {given_up.failures} times in a row, and the stream gives up. {text}")
