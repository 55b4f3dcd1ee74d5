"""A clock that never goes back, even if the wall clock jumps or the process restarts. It orders the staging queue.

The clock starts at the wall clock's time, and then counts monotonic time. A restart of the process continues the clock. After a
restart of the machine, the clock takes the wall clock's time, but never goes back. This file knows no queue.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.world import Clock

__all__ = ("CLOCK", "ClockAnchor", "SteadyClock", "anchored")

CLOCK: Final = "clock"
"""The name of the only `ClockAnchor` record."""


class ClockAnchor(Struct, frozen=True, kw_only=True):
    """The reading of the clock at the last start."""

    steady_ms: int
    monotonic_ms: int
    #: Identifies the origin of the monotonic time.
    epoch: bytes


class SteadyClock:
    """A clock in milliseconds that never goes back."""

    def __init__(self, anchor: ClockAnchor) -> None:
        self._ahead_ms = anchor.steady_ms - anchor.monotonic_ms

    def at_ms(self, monotonic_ms: int) -> int:
        """Return the steady time for this reading of the monotonic clock."""
        return monotonic_ms + self._ahead_ms


def anchored(clock: Clock, before: Sequence[ClockAnchor]) -> ClockAnchor:
    """Return the anchor of this start. `before` has the anchor of the previous start, if any."""
    monotonic_ms, wall_ms, epoch = int(clock.monotonic() * 1_000), int(clock.wall() * 1_000), clock.monotonic_epoch()
    steady_ms = wall_ms
    for anchor in before:
        same_start = any(epoch) and anchor.epoch == epoch
        steady_ms = anchor.steady_ms + monotonic_ms - anchor.monotonic_ms if same_start else max(wall_ms, anchor.steady_ms)
    return ClockAnchor(steady_ms=steady_ms, monotonic_ms=monotonic_ms, epoch=epoch)
