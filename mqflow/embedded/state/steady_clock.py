"""A clock that orders moments across jumps of the wall clock and restarts: what the staging queue is kept in order by.

Starts at the wall clock's time and then counts monotonic time. A restart goes on where it would be by now, or, of the machine,
where the wall clock is, but never back. Knows no queue.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mqflow.world import Clock

__all__ = ("CLOCK", "ClockAnchor", "SteadyClock", "anchored")

CLOCK: Final = "clock"
"""The name of the one record there is."""


class ClockAnchor(Struct, frozen=True, kw_only=True):
    """What the clock said at the last start."""

    steady_ms: int
    monotonic_ms: int
    #: What the monotonic milliseconds count from.
    epoch: bytes


class SteadyClock:
    """Milliseconds that never go back."""

    def __init__(self, anchor: ClockAnchor) -> None:
        self._ahead_ms = anchor.steady_ms - anchor.monotonic_ms

    def at_ms(self, monotonic_ms: int) -> int:
        """Return the moment at which the monotonic clock said that."""
        return monotonic_ms + self._ahead_ms


def anchored(clock: Clock, before: Sequence[ClockAnchor]) -> ClockAnchor:
    """Return where the clock starts, given where it did before, if it did."""
    monotonic_ms, wall_ms, epoch = int(clock.monotonic() * 1_000), int(clock.wall() * 1_000), clock.monotonic_epoch()
    steady_ms = wall_ms
    for anchor in before:
        same_start = any(epoch) and anchor.epoch == epoch
        steady_ms = anchor.steady_ms + monotonic_ms - anchor.monotonic_ms if same_start else max(wall_ms, anchor.steady_ms)
    return ClockAnchor(steady_ms=steady_ms, monotonic_ms=monotonic_ms, epoch=epoch)
