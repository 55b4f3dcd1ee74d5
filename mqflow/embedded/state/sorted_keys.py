"""The places of a queue's messages, in order: numbers, each once, mostly added behind all others and taken from the front.

As long as that is so they lie in two lists, one for each end, and a step costs a tenth of what it does in a sorted list. A
number that comes or goes deep within makes one sorted list of them all (tens of milliseconds for a million, once), until the
queue is empty: so every step costs the same at depth 10 and at depth 1,000,000. Knows numbers; knows no message.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import neg
from typing import Final

from sortedcontainers import SortedList

__all__ = ("SortedKeys",)

_NEAR: Final = 512
"""So far from an end a list may be changed: what is behind has to be moved."""


class SortedKeys:
    """Numbers in ascending order."""

    __slots__ = ("_back", "_front", "_sorted")

    def __init__(self, places: Iterable[int] = ()) -> None:
        #: The first ones, the very first at the end; all before those in `_back`.
        self._front = sorted(places, reverse=True)
        #: The last ones, the very last at the end.
        self._back: list[int] = []
        #: All of them, where they came or went within.
        self._sorted: SortedList[int] | None = None

    def add(self, place: int) -> None:
        """Have it, at its place. It was not there."""
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
        """Have it no more. It was there."""
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
                self._turn(0)
                self._front.pop()
            else:
                self._all_sorted().remove(place)

    def first(self) -> int | None:
        """Return the first; None where there is none."""
        if self._front:
            return self._front[-1]
        if self._back:
            return self._back[0]
        return self._sorted[0] if self._sorted else None

    def first_ones(self, count: int) -> list[int]:
        """Return the first so many, or all."""
        if self._sorted is not None:
            return list(self._sorted.islice(0, count))
        front = self._front
        found = front[-1 : -count - 1 : -1]
        return found if len(found) == count else found + self._back[: count - len(found)]

    def remove_first(self, count: int) -> None:
        """Have the first so many no more. There are as many."""
        if self._sorted is not None:
            for place in self.first_ones(count):
                self.remove(place)
        elif count <= len(self._front):
            del self._front[len(self._front) - count :]
        else:
            self._turn(count - len(self._front))

    def after(self, place: int) -> int | None:
        """Return the first behind this place, which need not be one of them; None where there is none."""
        return next(self.all_after(place), None)

    def all_after(self, place: int) -> Iterator[int]:
        """Give those behind this place, in order."""
        return self._from(place + 1)

    def ones_from(self, place: int, count: int) -> list[int]:
        """Return so many, or fewer, from this place on."""
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
        """Put it into the list where it belongs, if that is not far from the end; return whether it was."""
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

    def _turn(self, without: int) -> None:
        """Have those of the back in front, but for the first so many."""
        self._front, self._back = self._back[without:], []
        self._front.reverse()

    def _all_sorted(self) -> "SortedList[int]":
        self._sorted = SortedList(self._front)
        self._sorted.update(self._back)
        self._front, self._back = [], []
        return self._sorted
