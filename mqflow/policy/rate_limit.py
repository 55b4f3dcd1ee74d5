"""Decides when a listener may get its next message, so that the listener stays within its rate limit.

This module only computes: `now` is an argument, and the runtime does the waiting. The state of a limit is one number: the time
at which the next message is due if messages come evenly spread.
"""

import math
from typing import Final

from msgspec import Struct

__all__ = ("RateLimit", "available", "taken", "wait_s")

_ROUNDING: Final = 1e-6
"""A tolerance, as a part of a message: sums of floats are not exact, and a message that is due must count as due."""


class RateLimit(Struct, frozen=True):
    """At most `messages` messages in `per_s` seconds, evenly spread. `RateLimit(10)` allows one message each 100 ms.

    In any `n` seconds the listener gets at most `burst + n * messages / per_s` messages. Raises `ValueError` for a value out of
    range; the error names the field and the accepted values.
    """

    #: The number of messages in `per_s` seconds.
    messages: int
    #: The time for that number of messages, in seconds.
    per_s: float = 1.0
    #: The number of messages that may come at once after a quiet time. A batch or a unit of work has at most this many
    #: messages. A message group can have more: then the listener waits longer for the next group.
    burst: int = 1

    def __post_init__(self) -> None:
        for claim, holds in (
            ("messages is a number, 1 or more", _is_count(self.messages)),
            ("per_s is more than 0 seconds", isinstance(self.per_s, int | float) and 0 < self.per_s < math.inf),
            ("burst is a number, 1 or more", _is_count(self.burst)),
        ):
            if not holds:
                raise ValueError(f"{self} is not a valid rate limit: {claim}.")

    @property
    def interval_s(self) -> float:
        """The time from one message to the next, in seconds."""
        return self.per_s / self.messages


def wait_s(limit: RateLimit, due_at: float, now: float) -> float:
    """Return the seconds until the next message may be got; 0 if it may be got now. `due_at` is the state of the limit."""
    return max(0.0, due_at - (limit.burst - 1) * limit.interval_s - now)


def available(limit: RateLimit, due_at: float, now: float) -> int:
    """Return the number of messages that may be got now, from 0 to `burst`."""
    spare_s = now - due_at + limit.burst * limit.interval_s
    return int(max(0.0, min(limit.burst, spare_s / limit.interval_s + _ROUNDING)))


def taken(limit: RateLimit, due_at: float, now: float, count: int) -> float:
    """Return the new state of the limit after `count` messages were got at `now`."""
    return max(due_at, now) + count * limit.interval_s


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
