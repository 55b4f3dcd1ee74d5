"""Group commit: several calls of a store share one sync, including calls that arrive a moment later.

Callers that got their answers together call again almost together. Without a wait, the first call gets a sync of its own, and
all others wait for that sync. A measurement with sixteen callers showed this: one sync had one call, the next fifteen.
So the writer (the thread that makes the syncs) waits for a moment while calls still arrive. It waits only if fewer callers wait
than recently waited together. After a useless wait, the writer waits less often. This file knows a mailbox, but no change and
no disk.
"""

from collections.abc import Callable
from typing import Final

from mqflow.embedded.storage.requests import Call, Item
from mqflow.world import Clock, Mailbox

__all__ = ("ITEMS_MAX", "GroupCommit")

ITEMS_MAX: Final = 1024
"""The most items in one transaction."""
#: The writer stops its wait if no call arrives for this fraction of the last sync's duration, or for the maximum below.
_LULL: Final = 0.5
_LULL_S_MAX: Final = 0.0005
#: The most checks of the mailbox in one wait, even if the clock hardly moves.
_LOOKS_MAX: Final = 2_000
_DISTRUST_MAX: Final = 256


class GroupCommit:
    """Takes the items of one transaction from a mailbox, on the writer thread."""

    def __init__(self, mailbox: Mailbox[Item], clock: Clock, give_way: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._give_way = give_way
        #: The estimated number of callers: the highest number that recently waited at the same time.
        self._crowd = 0
        self._lull_s = 0.0
        #: How many of the next transactions do not wait (`_distrust`), and how many will not wait after the next useless wait
        #: (`_lesson`).
        self._distrust = 0
        self._lesson = 1

    def next(self) -> list[Item]:
        """Return the items of the next transaction. Waits for the first item."""
        items = [self._mailbox.get()]
        callers = self._take_over(items)
        if callers and callers < self._crowd and not self._distrusted():
            found = self._wait(items, callers)
            self._learn(in_vain=found == callers)
        return items

    def synced(self, calls: int, took_s: float) -> None:
        """Record a sync of `calls` calls. Must run before the callers get their answers, because they then call again."""
        self._crowd = max(calls + self._mailbox.qsize(), self._crowd - 1)
        self._lull_s = min(took_s * _LULL, _LULL_S_MAX)

    def _wait(self, items: list[Item], callers: int) -> int:
        """Add arriving items to `items` until none arrives for a moment. Return how many callers wait for `items`."""
        quiet_since = self._clock.monotonic()
        for _ in range(_LOOKS_MAX):
            if callers >= self._crowd or len(items) >= ITEMS_MAX:
                break
            self._give_way()
            now = self._clock.monotonic()
            if self._mailbox.qsize():
                before = len(items)
                callers += self._take_over(items, before)
                quiet_since = now
            elif now - quiet_since >= self._lull_s:
                break
        return callers

    def _take_over(self, items: list[Item], known: int = 0) -> int:
        """Move the items of the mailbox to `items`. Return how many callers wait for items after the first `known` items."""
        items.extend(self._mailbox.get() for _ in range(min(self._mailbox.qsize(), ITEMS_MAX)))
        return sum(1 for item in items[known:] if isinstance(item, Call) and item.done is not None)

    def _distrusted(self) -> bool:
        if not self._distrust:
            return False
        self._distrust -= 1
        return True

    def _learn(self, *, in_vain: bool) -> None:
        if in_vain:
            self._distrust = self._lesson
            self._lesson = min(2 * self._lesson, _DISTRUST_MAX)
        else:
            self._lesson = 1
