"""Decides how long to wait before a message that failed is tried again: growing, spread by chance, bounded.

Knows numbers only: the backout count and the random number are arguments. The wait itself is the runtime's.
"""

import math
from typing import Final

from msgspec import Struct

__all__ = ("REDELIVERY", "REFUSED", "Pace", "pause_s")


class Pace(Struct, frozen=True, kw_only=True):
    """How pauses grow. Raises `ValueError`, naming the field and what it takes, for a pace that is none."""

    #: The longest pause after the first failure, in seconds; 0 never pauses, and a failing message then spins.
    first_s: float = 0.05
    #: How many times longer each pause is than the one before; 1 keeps them equal.
    factor: float = 2.0
    #: No pause is longer, in seconds.
    max_s: float = 30.0
    #: The part of a pause that is left to chance, 0 to 1, so that messages which failed together do not return together.
    jitter: float = 0.25

    def __post_init__(self) -> None:
        for claim, holds in (
            ("first_s is 0 or more seconds", self.first_s >= 0),
            ("factor is 1 or more", 1 <= self.factor < math.inf),
            ("max_s is first_s or more seconds", self.first_s <= self.max_s < math.inf),
            ("jitter is between 0 and 1", 0 <= self.jitter <= 1),
        ):
            if not holds:
                raise ValueError(f"{self} is no pace: {claim}.")


REDELIVERY: Final = Pace()
"""Between the deliveries of a message that fails: 50 ms, 100 ms ... up to 30 s, each up to a quarter shorter."""

REFUSED: Final = Pace(first_s=1.0, max_s=60.0)
"""Between the attempts to move a poison message that no queue takes: 1 s, 2 s ... up to a minute."""


def pause_s(pace: Pace, backout_count: int, random: float) -> float:
    """Return how long to wait, in seconds, after the failure that made the count what it is: 1 after the first.

    `random` is in [0, 1). Never more than `max_s`; 0 only where nothing failed yet, or the pace says so.
    """
    if backout_count < 1 or not pace.first_s:
        return 0.0
    try:
        grown = math.pow(pace.factor, backout_count - 1)
    except OverflowError:  # a power leaves the floats long before the count ends
        grown = math.inf
    return min(pace.first_s * grown, pace.max_s) * (1 - pace.jitter * random)
