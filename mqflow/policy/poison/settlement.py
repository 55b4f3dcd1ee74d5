"""Decides how a unit of work ends after a message was handled, and what follows for the message.

Knows outcomes and plans; knows no connection and no clock. Which plan a message has is `backout`'s business, how long a pause
is `pacing`'s.
"""

from typing import assert_never

from msgspec import Struct

from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.backout import Plan
from mqflow.policy.poison.disposition import Completed, Deliver, Failed, Interrupted, Outcome, Settlement, Undecodable

__all__ = ("Dispose", "Done", "Next", "Redeliver", "after", "dead_letter_reason", "settle")


class Done(Struct, frozen=True):
    """Nothing follows: the message is off its queue for good."""


class Redeliver(Struct, frozen=True):
    """The message is on its queue again; whoever got it waits that long before getting again."""

    pause_s: float


class Dispose(Struct, frozen=True):
    """The message is on its queue again, and is moved away by this plan before it can be delivered once more."""

    plan: Plan


Next = Done | Redeliver | Dispose


def settle(outcome: Outcome) -> Settlement:
    """Return COMMIT for a handler that returned, BACKOUT for everything else: what was not done is not committed."""
    match outcome:
        case Completed():
            return Settlement.COMMIT
        case Failed() | Undecodable() | Interrupted():
            return Settlement.BACKOUT
        case _:
            assert_never(outcome)


def after(outcome: Outcome, *, decided: Plan, disposed: Plan, pause_s: float, redeliver_undecodable: bool = False) -> Next:
    """Return what follows once the unit of work is settled.

    `decided` is what `backout.decide` says of the message with the backout to come already counted, `disposed` what
    `backout.dispose` says of it; `pause_s` is the pace's pause, which a handler's `Retry(after=...)` replaces. An interrupted
    handling is nobody's failure: the message is left to its next get, however high the backout made its count.
    """
    match outcome:
        case Completed():
            return Done()
        case Interrupted():
            return Redeliver(0.0)
        case Failed(final=True):
            return Dispose(disposed)
        case Failed(retry_after_s=wished_s):
            return _redelivered_or_disposed(decided, pause_s if wished_s is None else wished_s)
        case Undecodable():
            return _redelivered_or_disposed(decided, pause_s) if redeliver_undecodable else Dispose(disposed)
        case _:
            assert_never(outcome)


def dead_letter_reason(outcome: Outcome) -> Reason:
    """Return the reason that the MQDLH gives for a message disposed of after this outcome.

    Source: IBM, "Reason and feedback codes in ASF": 2364 for what cannot be interpreted, 2362 for what was backed out too
    often. What a handler rejects has no code of its own there, so it shares that of the threshold.
    """
    return Reason.JMS_FORMAT_ERROR if isinstance(outcome, Undecodable) else Reason.BACKOUT_THRESHOLD_REACHED


def _redelivered_or_disposed(decided: Plan, pause_s: float) -> Next:
    return Redeliver(pause_s) if decided == (Deliver(),) else Dispose(decided)
