"""Counts ordinary messages in plain numbers, because an event for each message takes longer than all other counting.

The hook that owns the numbers reads them when somebody asks for them, on any thread. A listener increments them, on its event
loop. This file knows no event, metric or queue.
"""

from bisect import bisect_left

from msgspec import Struct

__all__ = ("ListenerTally", "Numbers", "observe")

Numbers = list[float]
"""One number; or a histogram: a number for each bound, one for everything above the last bound, and then the sum."""


class ListenerTally(Struct, frozen=True):
    """The numbers that the ordinary messages of a listener change: messages that are got, handled and committed."""

    bounds_s: tuple[float, ...]
    #: The messages that were got for a handler.
    delivered: Numbers
    #: The units of work whose handlers have completed, and that were committed.
    completed: Numbers
    #: The histogram of the seconds that the handlers of these units took.
    handled_s: Numbers
    #: The histogram of the seconds that the commits of these units took; None if nobody reads it.
    settled_s: Numbers | None = None

    def complete(self, handled_s: float, settle_s: float) -> None:
        """Count a completed unit of work. `settle_s` is 0 if it was not measured."""
        self.completed[0] += 1
        handled, bounds_s, settled = self.handled_s, self.bounds_s, self.settled_s
        handled[bisect_left(bounds_s, handled_s)] += 1  # `observe`, without its call: every message comes here
        handled[-1] += handled_s
        if settle_s and settled is not None:
            settled[bisect_left(bounds_s, settle_s)] += 1
            settled[-1] += settle_s


def observe(histogram: Numbers, bounds_s: tuple[float, ...], seconds: float) -> None:
    """Count the seconds in their bucket of the histogram, and add them to its sum."""
    histogram[bisect_left(bounds_s, seconds)] += 1
    histogram[-1] += seconds
