"""The keys of a queue's messages in ascending order. Most keys are added at the end and removed from the front.

As long as keys change only near the ends, two lists store them, one for each end. A step then costs a tenth of a step in a
sorted list. The first change far from both ends turns the two lists into one sorted list, until the queue is empty. For a
million keys this change takes tens of milliseconds, once. Every other step costs the same at depth 10 and at depth 1,000,000.
This file knows numbers, but no messages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import neg
from typing import Final

from sortedcontainers import SortedList

__all__ = ("SortedKeys",)

_NEAR: Final = 512
"""A list is changed in place only within this distance from its end, because all entries behind the change must move."""


class SortedKeys:
    """A set of numbers in ascending order."""

    __slots__ = ("_back", "_front", "_sorted")

    def __init__(self, places: Iterable[int] = ()) -> None:
        #: The first numbers in descending order; all are before the numbers of `_back`.
        self._front = sorted(places, reverse=True)
        #: The last numbers in ascending order.
        self._back: list[int] = []
        #: All numbers, after a change far from both ends; `_front` and `_back` are then empty.
        self._sorted: SortedList[int] | None = None

    def add(self, place: int) -> None:
        """Add a number that is not in the set."""
        front, back = self._front, self._back
        if self._sorted is not None:
            self._sorted.add(place)
        elif back and place > back[-1]:
            back.append(place)
        elif front and place < front[-1]:
            front.append(place)
        elif not back and (not front or place > front[0]):
            back.append(place)
        elif not self._add_within(place):
            self._all_sorted().add(place)

    def remove(self, place: int) -> None:
        """Remove a number that is in the set."""
        front, back = self._front, self._back
        if self._sorted is not None:
            self._sorted.remove(place)
            if not self._sorted:
                self._sorted = None
        elif front and front[-1] == place:
            front.pop()
        elif front and place <= front[0]:
            index = bisect_left(front, -place, key=neg)
            if len(front) - index <= _NEAR:
                del front[index]
            else:
                self._all_sorted().remove(place)
        else:
            index = bisect_left(back, place)
            if len(back) - index <= _NEAR:
                del back[index]
            elif index == 0 and not front:
                self._move_to_front(0)
                self._front.pop()
            else:
                self._all_sorted().remove(place)

    def first(self) -> int | None:
        """Return the first number; None if the set is empty."""
        if self._front:
            return self._front[-1]
        if self._back:
            return self._back[0]
        return self._sorted[0] if self._sorted else None

    def first_ones(self, count: int) -> list[int]:
        """Return the first `count` numbers, or all if there are fewer."""
        if self._sorted is not None:
            return list(self._sorted.islice(0, count))
        front = self._front
        found = front[-1 : -count - 1 : -1]
        return found if len(found) == count else found + self._back[: count - len(found)]

    def remove_first(self, count: int) -> None:
        """Remove the first `count` numbers; the set must hold at least `count` numbers."""
        if self._sorted is not None:
            for place in self.first_ones(count):
                self.remove(place)
        elif count <= len(self._front):
            del self._front[len(self._front) - count :]
        else:
            self._move_to_front(count - len(self._front))

    def after(self, place: int) -> int | None:
        """Return the first number greater than `place`, or None if there is no such number. `place` need not be in the set."""
        return next(self.all_after(place), None)

    def all_after(self, place: int) -> Iterator[int]:
        """Yield the numbers behind this place, in order."""
        return self._from(place + 1)

    def ones_from(self, place: int, count: int) -> list[int]:
        """Return up to `count` numbers from this place on."""
        return [found for found, _ in zip(self._from(place), range(count), strict=False)]

    def _from(self, place: int) -> Iterator[int]:
        if self._sorted is not None:
            yield from self._sorted.irange(place)
            return
        front, back = self._front, self._back
        if front and place <= front[0]:
            for index in range(bisect_right(front, -place, key=neg) - 1, -1, -1):
                yield front[index]
        for index in range(bisect_left(back, place), len(back)):
            yield back[index]

    def _add_within(self, place: int) -> bool:
        """Insert the number into its list if its place is near the end of the list; return whether it was inserted."""
        front, back = self._front, self._back
        if front and place < front[0]:
            index = bisect_left(front, -place, key=neg)
            if len(front) - index > _NEAR:
                return False
            front.insert(index, place)
            return True
        index = bisect_left(back, place)
        if index == 0 and not front:
            front.append(place)
            return True
        if len(back) - index > _NEAR:
            return False
        back.insert(index, place)
        return True

    def _move_to_front(self, without: int) -> None:
        """Make the back list the front list, without its first `without` numbers; the back list is then empty."""
        self._front, self._back = self._back[without:], []
        self._front.reverse()

    def _all_sorted(self) -> "SortedList[int]":
        self._sorted = SortedList(self._front)
        self._sorted.update(self._back)
        self._front, self._back = [], []
        return self._sorted
