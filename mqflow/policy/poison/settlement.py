"""Decides the next step for a message after its handling.

This module has no connection and no clock. `backout` decides the plan, `redelivery_delay` decides the pause.
"""

from typing import assert_never

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import Plan
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Interrupted, Outcome, Undecodable

__all__ = ("Dispose", "Done", "Next", "Redeliver", "after", "dead_letter_reason", "is_final")


class Done(Struct, frozen=True):
    """The handler completed, so the message needs no further step."""


class Redeliver(Struct, frozen=True):
    """The worker waits `pause_s` seconds, and then returns the message to its queue."""

    pause_s: float


class Dispose(Struct, frozen=True):
    """The message must be moved as the plan says. It must not be delivered before that."""

    plan: Plan


Next = Done | Redeliver | Dispose


def is_final(outcome: Outcome, *, redeliver_undecodable: bool = False) -> bool:
    """Return whether no redelivery can help. Then the message must be moved or discarded, at any backout count."""
    match outcome:
        case Failed(final=final):
            return final
        case Undecodable():
            return not redeliver_undecodable
        case Completed() | Interrupted():
            return False
        case _:
            assert_never(outcome)


def after(outcome: Outcome, *, decided: Plan, disposed: Plan, pause_s: float, redeliver_undecodable: bool = False) -> Next:
    """Return the next step for the message after its handling.

    `decided` is the plan of `backout.decide`, computed as if the message were already backed out. `disposed` is the plan of
    `backout.dispose`. `pause_s` is the pause of `redelivery_delay`; a handler's `Retry(after=...)` replaces it. An interrupted
    handling is not a failure: the message stays on its queue, even if the backout increased its count to the threshold.
    """
    if is_final(outcome, redeliver_undecodable=redeliver_undecodable):
        return Dispose(disposed)
    match outcome:
        case Completed():
            return Done()
        case Interrupted():
            return Redeliver(0.0)
        case Failed(retry_after_s=wished_s):
            return _redelivered_or_disposed(decided, pause_s if wished_s is None else wished_s)
        case Undecodable():
            return _redelivered_or_disposed(decided, pause_s)
        case _:
            assert_never(outcome)


def dead_letter_reason(outcome: Outcome) -> Reason:
    """Return the reason for the MQDLH of a message that is dead-lettered after this outcome.

    Source: IBM, "Reason and feedback codes in ASF": 2364 for a message that cannot be interpreted, 2362 for a message that was
    backed out too often. That page has no code for a rejected message, so it gets 2362 too.
    """
    return Reason.JMS_FORMAT_ERROR if isinstance(outcome, Undecodable) else Reason.BACKOUT_THRESHOLD_REACHED


def _redelivered_or_disposed(decided: Plan, pause_s: float) -> Next:
    return Redeliver(pause_s) if decided == (Deliver(),) else Dispose(decided)
