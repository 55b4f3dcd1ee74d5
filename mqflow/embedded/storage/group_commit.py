"""Which calls of a store share a sync: those that are there, and those that are about to come.

Who was answered together comes back together, one after the other: without waiting, the first gets a sync of its own, and all
the others wait for that. Sixteen callers took turns like this, one of them in one sync and fifteen in the next. So the writer
waits a moment, as long as somebody it has seen is missing and others arrive; where that was in vain, it does so less often.
Knows a mailbox; knows no change and no disk.
"""

from collections.abc import Callable
from typing import Final

from mqflow.embedded.storage.requests import Call, Item
from mqflow.world import Clock, Mailbox

__all__ = ("ITEMS_MAX", "Gathering")

ITEMS_MAX: Final = 1024
"""What is added to a transaction before it is made, at most."""
#: How long nobody arrives before it goes on: this part of what the last sync took, and never more than so much.
_LULL: Final = 0.5
_LULL_S_MAX: Final = 0.0005
#: However slowly the clock goes.
_LOOKS_MAX: Final = 2_000
_DISTRUST_MAX: Final = 256


class Gathering:
    """Takes the items of one transaction out of a mailbox. Used by the thread that makes them."""

    def __init__(self, mailbox: Mailbox[Item], clock: Clock, give_way: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._give_way = give_way
        #: How many callers there are, as far as they have been seen to wait at once.
        self._crowd = 0
        self._lull_s = 0.0
        #: How many transactions are made without waiting, and how many that will be when the next wait is in vain.
        self._distrust = 0
        self._lesson = 1

    def next(self) -> list[Item]:
        """Return what there is, waiting for the first."""
        items = [self._mailbox.get()]
        callers = self._take_over(items)
        if callers and callers < self._crowd and not self._distrusted():
            found = self._wait(items, callers)
            self._learn(in_vain=found == callers)
        return items

    def synced(self, calls: int, took_s: float) -> None:
        """Note that so many calls were made and are about to be answered: who is in the mailbox by now is somebody else."""
        self._crowd = max(calls + self._mailbox.qsize(), self._crowd - 1)
        self._lull_s = min(took_s * _LULL, _LULL_S_MAX)

    def _wait(self, items: list[Item], callers: int) -> int:
        """Have in `items` who comes before a lull; return how many callers these are."""
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
        """Have in `items` what is in the mailbox; return how many behind the first `known` somebody waits for."""
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
