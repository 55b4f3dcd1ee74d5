"""Counts ordinary messages in plain numbers, because an event for each message takes longer than all other counting.

The hook that owns the numbers reads them when somebody asks for them, on any thread. A listener increments them, on its event
loop. This file knows no event, metric or queue.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

__all__ = ("ListenerTally", "Numbers", "add", "observe")

Labels = TypeVar("Labels", bound=Hashable)

Numbers = list[float]
"""One number; or a histogram: a number for each bound, one for everything above the last bound, and then the sum."""


class ListenerTally:
    """The numbers that the ordinary messages of a listener change: messages that are got, handled and committed.

    A unit of work is quick if its handling and its commit together take at most the first bound. `WorkerEvents` increments the
    numbers of a quick unit itself, because a call would take longer than the increments. Each number only grows.
    """

    __slots__ = ("_handled", "_settled", "bounds_s", "delivered", "handled_s", "quick", "quick_s", "quick_settled", "settled_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s: Final = bounds_s
        self.quick_s: Final = bounds_s[0]
        #: The messages that were got for a handler.
        self.delivered: int = 0
        #: The quick units that were completed: those whose commit was not measured, and those whose commit was measured.
        self.quick: int = 0
        self.quick_settled: int = 0
        #: The seconds that the handlers of all completed units took, and the seconds that their measured commits took.
        self.handled_s: float = 0.0
        self.settled_s: float = 0.0
        #: The histograms of the units that were not quick, without their sums.
        self._handled: Final = [0] * (len(bounds_s) + 1)
        self._settled: Final = [0] * (len(bounds_s) + 1)

    def complete(self, handled_s: float, settle_s: float) -> None:
        """Count a completed unit of work. `settle_s` is 0 if its commit was not measured."""
        self._handled[bisect_left(self.bounds_s, handled_s)] += 1
        self.handled_s += handled_s
        if settle_s:
            self._settled[bisect_left(self.bounds_s, settle_s)] += 1
            self.settled_s += settle_s

    def handled(self) -> Numbers:
        """Return the histogram of the seconds that the handlers of the completed units took."""
        first, *others = self._handled
        return [first + self.quick + self.quick_settled, *others, self.handled_s]

    def settled(self) -> Numbers:
        """Return the histogram of the seconds that the measured commits of the completed units took."""
        first, *others = self._settled
        return [first + self.quick_settled, *others, self.settled_s]


def observe(histogram: Numbers, bounds_s: tuple[float, ...], seconds: float) -> None:
    """Count the seconds in their bucket of the histogram, and add them to its sum."""
    histogram[bisect_left(bounds_s, seconds)] += 1
    histogram[-1] += seconds


def add(series: dict[Labels, Numbers], counted: Iterable[tuple[Labels, Numbers]], overflow: Labels) -> None:
    """Add the numbers to the series with the same labels. If there is no such series, add them to the series `overflow`."""
    for labels, numbers in counted:
        at = labels if labels in series else overflow
        series[at] = [sum(pair) for pair in zip(series[at], numbers, strict=True)]
