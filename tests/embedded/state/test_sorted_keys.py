"""After any additions and removals, the keys are those of a sorted list."""

import sys
from bisect import bisect_right, insort

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mqflow.embedded.state import sorted_keys
from mqflow.embedded.state.sorted_keys import SortedKeys

MOST = 60
anywhere = st.integers(0, MOST)


class PlacesAreSorted(RuleBasedStateMachine):
    """Compares the keys with a list. Blocks have three keys, so that a few keys have many blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._block = sorted_keys._BLOCK
        sorted_keys._BLOCK = 3  # type: ignore[misc]  # so that few keys are many
        self.kept: list[int] = []
        self.places = SortedKeys()

    def teardown(self) -> None:
        sorted_keys._BLOCK = self._block  # type: ignore[misc]  # the value before the test

    @initialize(kept=st.sets(anywhere))
    def begin(self, kept: set[int]) -> None:
        self.kept = sorted(kept)
        self.places = SortedKeys(kept)

    @rule(place=anywhere)
    def come_or_go(self, place: int) -> None:
        if place in self.kept:
            self.kept.remove(place)
            self.places.remove(place)
        else:
            insort(self.kept, place)
            self.places.add(place)

    @rule(count=st.integers(1, 10))
    def come_behind_all_others(self, count: int) -> None:
        last = self.kept[-1] if self.kept else 0
        for place in range(last + 1, last + 1 + count):
            self.kept.append(place)
            self.places.add(place)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def go_from_the_front(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, len(self.kept)))
        del self.kept[:count]
        self.places.remove_first(count)

    @rule(count=st.integers(0, MOST))
    def look(self, count: int) -> None:
        assert self.kept[:count] == self.places.first_ones(count)

    @rule(place=st.integers(-1, MOST), count=st.integers(0, 5))
    def look_behind(self, place: int, count: int) -> None:
        later = self.kept[bisect_right(self.kept, place) :]

        assert later == self.places.ones_from(place + 1, sys.maxsize)
        assert (later[0] if later else None) == self.places.after(place)
        assert [each for each in self.kept if each >= place][:count] == self.places.ones_from(place, count)

    @rule(place=anywhere)
    def is_there(self, place: int) -> None:
        assert (place in self.kept) == (place in self.places)

    @invariant()
    def the_first_is_the_least(self) -> None:
        assert (self.kept[0] if self.kept else None) == self.places.first()
        assert len(self.kept) == len(self.places)


TestPlacesAreSorted = PlacesAreSorted.TestCase


@pytest.mark.parametrize("way", ["in order", "taken within", "came within"])
def test_very_many_keys_are_taken_one_by_one_in_order(way: str) -> None:
    """The test measures no time: if each step moved all keys, the test would exceed its time limit."""
    many = SortedKeys(range(0, 200_000, 2))
    expected = list(range(0, 200_000, 2))
    if way == "taken within":
        many.remove(100_000)
        expected.remove(100_000)
    elif way == "came within":
        many.add(100_001)
        insort(expected, 100_001)

    found = []
    while (first := many.first()) is not None:
        found.append(first)
        many.remove(first)

    assert expected == found


def test_the_first_of_a_long_back_goes_and_the_front_stays() -> None:
    """The state machine above found this case."""
    many = SortedKeys([1])
    for place in range(2, 2_000):
        many.add(place)

    many.remove(2)

    assert [1, 3, 4] == many.first_ones(3)


@pytest.mark.parametrize("base", [0, 2**62, 2**100], ids=["small", "at 63 bits", "large"])
def test_keys_of_any_size_keep_their_order(base: int) -> None:
    """The staging queue has keys of more than 64 bits."""
    expected = sorted({*range(5_000), *range(base, base + 5_000)})
    many = SortedKeys(expected)
    for place in expected[2_000:3_000:7]:
        many.remove(place)
        many.add(place)

    assert expected == list(many)


@given(st.lists(st.integers(0, 1_000_000), unique=True))
def test_keys_given_at_once_are_as_keys_added_one_by_one(given_places: list[int]) -> None:
    one_by_one = SortedKeys()
    for place in given_places:
        one_by_one.add(place)

    assert SortedKeys(given_places).ones_from(0, sys.maxsize) == one_by_one.ones_from(0, sys.maxsize)
