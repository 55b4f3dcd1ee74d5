"""Group commit: the calls of a store that share one sync, which are the calls that are there and those about to arrive.

Callers that got their answers together return together, one after the other. Without a wait the first caller gets a sync of its
own, and all others wait for that sync. Sixteen callers took turns like this: one in one sync, fifteen in the next.
So the writer waits a moment, as long as a known caller is missing and others arrive. After a useless wait it waits less often.
Knows a mailbox; knows no change and no disk.
"""

from collections.abc import Callable
from typing import Final

from mqflow.embedded.storage.requests import Call, Item
from mqflow.world import Clock, Mailbox

__all__ = ("ITEMS_MAX", "GroupCommit")

ITEMS_MAX: Final = 1024
"""The most items of one transaction."""
#: The writer goes on if nobody arrives for this part of the last sync's time, and never waits longer than the maximum.
_LULL: Final = 0.5
_LULL_S_MAX: Final = 0.0005
#: The most looks into the mailbox, however slowly the clock goes.
_LOOKS_MAX: Final = 2_000
_DISTRUST_MAX: Final = 256


class GroupCommit:
    """Takes the items of one transaction out of a mailbox, on the thread of the writer."""

    def __init__(self, mailbox: Mailbox[Item], clock: Clock, give_way: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._give_way = give_way
        #: The number of callers: the most that waited at once.
        self._crowd = 0
        self._lull_s = 0.0
        #: The number of transactions without a wait, and that number after the next useless wait.
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
        """Note a sync of so many calls, which get their answers next. Items that are now in the mailbox have other callers."""
        self._crowd = max(calls + self._mailbox.qsize(), self._crowd - 1)
        self._lull_s = min(took_s * _LULL, _LULL_S_MAX)

    def _wait(self, items: list[Item], callers: int) -> int:
        """Add the items that arrive before a lull to `items`, and return the number of their callers."""
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
        """Add the items of the mailbox to `items`. Return how many callers wait for calls behind the first `known` items."""
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
