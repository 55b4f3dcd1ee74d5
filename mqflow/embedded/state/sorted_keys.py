"""The keys of a queue's messages in ascending order. Most keys are added at the end and removed from the front.

The first keys and the last keys are in plain lists, all others in blocks with 8 bytes for each key. A step moves only the keys
of one list or block, so it costs the same at depth 10 and at depth 1,000,000. This file knows numbers, but no messages.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter, neg
from typing import Final

__all__ = ("SortedKeys",)

_BLOCK: Final = 1024
"""The number of keys in a new block. A block or list is cut when it has twice as many keys."""

_last = itemgetter(-1)


class SortedKeys:
    """A set of numbers in ascending order."""

    __slots__ = ("_back", "_front", "_middle", "_middle_length")

    def __init__(self, places: Iterable[int] = ()) -> None:
        ascending = sorted(places)
        #: The first numbers, in descending order. The list is empty only if the set is empty.
        self._front = ascending[:_BLOCK][::-1]
        #: The next numbers, in blocks. No block is empty.
        self._middle: deque[array[int] | list[int]] = deque(
            _block(ascending[start : start + _BLOCK]) for start in range(_BLOCK, len(ascending), _BLOCK)
        )
        self._middle_length = len(ascending) - len(self._front)
        #: The last numbers, in ascending order.
        self._back: list[int] = []

    def __len__(self) -> int:
        return len(self._front) + self._middle_length + len(self._back)

    def __iter__(self) -> Iterator[int]:
        return self._from(self._front[-1]) if self._front else iter(())

    def __contains__(self, place: int) -> bool:
        return next(self._from(place), None) == place

    def add(self, place: int) -> None:
        """Add a number that is not in the set."""
        front, back = self._front, self._back
        if back and place > back[-1]:
            back.append(place)
            if len(back) >= 2 * _BLOCK:
                self._middle.append(_block(back))
                self._middle_length += len(back)
                self._back = []
        elif not front:
            front.append(place)
        elif place < front[0]:
            self._add_to_front(place)
        elif self._middle and place < self._middle[-1][-1]:
            self._add_to_middle(place)
        else:
            insort(back, place)

    def remove(self, place: int) -> None:
        """Remove a number that is in the set."""
        front = self._front
        if front[-1] == place:
            front.pop()
            if not front:
                self._refill()
        elif place <= front[0]:
            del front[bisect_left(front, -place, key=neg)]
        elif self._middle and place <= self._middle[-1][-1]:
            self._remove_from_middle(place)
        else:
            del self._back[bisect_left(self._back, place)]

    def first(self) -> int | None:
        """Return the first number; None if the set is empty."""
        return self._front[-1] if self._front else None

    def first_ones(self, count: int) -> list[int]:
        """Return the first `count` numbers, or all numbers if the set has fewer."""
        found = self._front[-1 : -count - 1 : -1]
        return found if len(found) == count else list(islice(self, count))

    def remove_first(self, count: int) -> None:
        """Remove the first `count` numbers. The set must have at least so many."""
        while count:
            front = self._front
            removed = min(count, len(front))
            del front[len(front) - removed :]
            count -= removed
            if not front:
                self._refill()

    def after(self, place: int) -> int | None:
        """Return the first number greater than `place`, or None. The set need not contain `place`."""
        return next(self._from(place + 1), None)

    def ones_from(self, place: int, count: int) -> list[int]:
        """Return up to `count` numbers, starting at `place`."""
        return list(islice(self._from(place), count))

    def _from(self, place: int) -> Iterator[int]:
        front, middle, back = self._front, self._middle, self._back
        if front and place <= front[0]:
            for index in range(bisect_right(front, -place, key=neg) - 1, -1, -1):
                yield front[index]
        if middle and place <= middle[-1][-1]:
            for index in range(bisect_left(middle, place, key=_last), len(middle)):
                block = middle[index]
                yield from block[bisect_left(block, place) :]
        if back and place <= back[-1]:
            for index in range(bisect_left(back, place), len(back)):
                yield back[index]

    def _add_to_front(self, place: int) -> None:
        front = self._front
        if place < front[-1]:
            front.append(place)
        else:
            front.insert(bisect_left(front, -place, key=neg), place)
        if len(front) >= 2 * _BLOCK:
            behind = front[_BLOCK - 1 :: -1]
            del front[:_BLOCK]
            self._middle.appendleft(_block(behind))
            self._middle_length += len(behind)

    def _add_to_middle(self, place: int) -> None:
        middle = self._middle
        index = bisect_left(middle, place, key=_last)
        block = middle[index]
        try:
            insort(block, place)
        except OverflowError:
            block = middle[index] = [*block]
            insort(block, place)
        self._middle_length += 1
        if len(block) >= 2 * _BLOCK:
            middle.insert(index + 1, block[_BLOCK:])
            del block[_BLOCK:]

    def _remove_from_middle(self, place: int) -> None:
        middle = self._middle
        index = bisect_left(middle, place, key=_last)
        block = middle[index]
        del block[bisect_left(block, place)]
        self._middle_length -= 1
        if not block:
            del middle[index]

    def _refill(self) -> None:
        """Make the next block the front list. If there is no block, make the back list the front list."""
        if self._middle:
            self._front = [*self._middle.popleft()]
            self._middle_length -= len(self._front)
        else:
            self._front, self._back = self._back, []
        self._front.reverse()


def _block(ascending: list[int]) -> "array[int] | list[int]":
    try:
        return array("q", ascending)
    except OverflowError:
        return ascending.copy()
