"""Decides how long to wait before the next delivery of a message that failed. The pauses grow up to a limit, and vary randomly.

This module only computes: the backout count and the random number are arguments. The runtime does the waiting.
"""

import math
from typing import Final

from msgspec import Struct

__all__ = ("REDELIVERY", "REFUSED", "Pace", "pause_s")


class Pace(Struct, frozen=True, kw_only=True):
    """The growth of pauses from failure to failure. A value out of range raises `ValueError` with the accepted values."""

    #: The longest pause after the first failure, in seconds. With 0 there is no pause, so a failing message is delivered again
    #: and again without rest.
    first_s: float = 0.05
    #: The factor between one pause and the next; with 1 all pauses are equal.
    factor: float = 2.0
    #: The longest pause, in seconds.
    max_s: float = 30.0
    #: The part of a pause that is random, from 0 to 1, so that messages that failed together do not return together.
    jitter: float = 0.25

    def __post_init__(self) -> None:
        fields = (self.first_s, self.factor, self.max_s, self.jitter)
        if not all(isinstance(each, int | float) for each in fields):
            raise ValueError(f"{self} is not a valid pace: each field is a number.")
        for claim, holds in (
            ("first_s is 0 or more seconds", self.first_s >= 0),
            ("factor is 1 or more", 1 <= self.factor < math.inf),
            ("max_s is first_s or more seconds", self.first_s <= self.max_s < math.inf),
            ("jitter is between 0 and 1", 0 <= self.jitter <= 1),
        ):
            if not holds:
                raise ValueError(f"{self} is not a valid pace: {claim}.")


REDELIVERY: Final = Pace()
"""The pauses before a failed message is delivered again: 50 ms, 100 ms ... up to 30 s. Each is up to a quarter shorter."""

REFUSED: Final = Pace(first_s=1.0, max_s=60.0)
"""The pauses between attempts to move a poison message that no queue accepts: 1 s, 2 s ... up to a minute."""


def pause_s(pace: Pace, backout_count: int, random: float) -> float:
    """Return the pause in seconds after a failure. `backout_count` includes this failure: it is 1 after the first failure.

    `random` is in [0, 1). The pause is never longer than `max_s`. It is 0 only if `backout_count` or `first_s` is 0.
    """
    if backout_count < 1 or not pace.first_s:
        return 0.0
    try:
        grown = math.pow(pace.factor, backout_count - 1)
    except OverflowError:  # `factor ** count` is larger than any float
        grown = math.inf
    return min(pace.first_s * grown, pace.max_s) * (1 - pace.jitter * random)
