"""The calls that share a sync: for which callers the writer waits, how long it waits, and the order of the calls."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.storage.group_commit import ITEMS_MAX, GroupCommit
from mqflow.embedded.storage.requests import Call, Item, Release

SYNC_S = 0.0004


class Callers:
    """A mailbox, its clock, and callers. Each time the writer gives way, the next number of `arrivals` arrive."""

    def __init__(self, *arrivals: int, way_s: float = 0.00001) -> None:
        self.ways = 0
        self._arrivals = deque(arrivals)
        self._way_s = way_s
        self._now = 0.0
        self._waiting: deque[Item] = deque()
        self.group_commit = GroupCommit(self, self, self._give_way)

    def come(self, count: int) -> None:
        self._waiting.extend(Call((), lambda _: None) for _ in range(count))

    def put(self, item: Item) -> None:
        self._waiting.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Item:  # noqa: ARG002, FBT001, FBT002 - as `Mailbox`
        return self._waiting.popleft()

    def empty(self) -> bool:
        return not self._waiting

    def qsize(self) -> int:
        return len(self._waiting)

    def wall(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def monotonic_epoch(self) -> bytes:
        return bytes(16)

    def _give_way(self) -> None:
        self.ways += 1
        self._now += self._way_s
        self.come(self._arrivals.popleft() if self._arrivals else 0)


def seen_together(callers: Callers, made: int, waiting: int) -> None:
    """Record one transaction of `made` calls, during which `waiting` other calls arrived."""
    callers.come(waiting)
    callers.group_commit.synced(made, SYNC_S)


def test_one_caller_is_never_waited_for() -> None:
    callers = Callers()
    for _ in range(3):
        callers.come(1)
        assert 1 == len(callers.group_commit.next())
        callers.group_commit.synced(1, SYNC_S)

    assert 0 == callers.ways


def test_returning_callers_share_a_sync_with_waiting_callers() -> None:
    callers = Callers(0, 1, 0, 1, 1)
    seen_together(callers, made=3, waiting=1)

    assert 4 == len(callers.group_commit.next())


def test_the_writer_does_not_wait_if_all_callers_are_there() -> None:
    callers = Callers()
    seen_together(callers, made=2, waiting=2)
    callers.come(2)

    assert 4 == len(callers.group_commit.next())
    assert 0 == callers.ways


def test_the_writer_waits_half_a_sync_for_a_missing_caller() -> None:
    callers = Callers()
    seen_together(callers, made=1, waiting=1)

    assert 1 == len(callers.group_commit.next())
    assert 20 == callers.ways  # of 10 us each


def test_each_arriving_caller_extends_the_wait() -> None:
    callers = Callers(*[0] * 18, 1, *[0] * 18, 1)
    seen_together(callers, made=3, waiting=1)

    assert 3 == len(callers.group_commit.next())


def test_a_wait_in_vain_is_followed_by_twice_as_many_transactions_without() -> None:
    callers = Callers()
    waited: list[bool] = []
    for _ in range(1 + 1 + 1 + 2 + 1 + 4 + 1):
        seen_together(callers, made=3, waiting=1)
        before = callers.ways
        callers.group_commit.next()
        waited.append(callers.ways > before)

    assert [True, False, True, False, False, True, *[False] * 4, True] == waited


def test_a_request_without_a_waiting_caller_is_no_caller() -> None:
    callers = Callers()
    seen_together(callers, made=1, waiting=1)
    callers.group_commit.next()
    ways = callers.ways
    callers.put(Release(()))

    assert 1 == len(callers.group_commit.next())
    assert ways == callers.ways


def test_a_clock_that_stands_still_ends_no_later() -> None:
    callers = Callers(way_s=0.0)
    seen_together(callers, made=1, waiting=1)

    assert 1 == len(callers.group_commit.next())


@given(
    st.lists(st.integers(min_value=0, max_value=3), max_size=30), st.lists(st.integers(min_value=0, max_value=5), max_size=8)
)
def test_each_item_is_given_once_and_in_order(arrivals: list[int], groups: list[int]) -> None:
    callers, sent, given_out = Callers(*arrivals), 0, list[Item]()
    marks: list[Item] = []
    for count in groups:
        for _ in range(count):
            marks.append(Release((sent,)))
            callers.put(marks[-1])
            sent += 1
        callers.come(1)
        items = callers.group_commit.next()
        given_out += items
        callers.group_commit.synced(len(items), SYNC_S)
    while not callers.empty():
        given_out += callers.group_commit.next()

    assert marks == [item for item in given_out if isinstance(item, Release)]


def test_a_wait_that_found_a_caller_restores_the_trust() -> None:
    """After a useful wait, the next useless wait costs one transaction without a wait again."""
    callers = Callers()
    waited: list[bool] = []
    for number in range(9):
        seen_together(callers, made=3, waiting=1)
        if number == 5:
            callers._arrivals.append(1)
        before = callers.ways
        callers.group_commit.next()
        waited.append(callers.ways > before)

    assert [True, False, True, False, False, True, True, False, True] == waited


def test_the_distrust_has_a_limit() -> None:
    callers = Callers()
    waits: list[int] = []
    for number in range(1_035):
        seen_together(callers, made=3, waiting=1)
        before = callers.ways
        callers.group_commit.next()
        waits += [number] if callers.ways > before else []

    assert [0, 2, 5, 10, 19, 36, 69, 134, 263, 520, 777, 1_034] == waits  # from 520 on, every 257th


def test_a_transaction_has_a_thousand_items_and_those_behind_wait_for_the_next() -> None:
    callers = Callers()
    callers.come(2_000)

    assert [1_025, 975] == [len(callers.group_commit.next()) for _ in range(2)]
    assert 1_024 == ITEMS_MAX


def test_a_full_transaction_waits_for_no_caller() -> None:
    callers = Callers()
    callers.group_commit.synced(5_000, SYNC_S)
    callers.come(ITEMS_MAX - 1)
    callers.group_commit.next()
    assert callers.ways > 0

    full = Callers()
    full.group_commit.synced(5_000, SYNC_S)
    full.come(ITEMS_MAX)
    full.group_commit.next()
    assert 0 == full.ways


def test_the_estimate_of_the_callers_falls_by_one_with_each_sync() -> None:
    callers = Callers()
    callers.group_commit.synced(3, SYNC_S)
    callers.group_commit.synced(1, SYNC_S)
    callers.come(2)
    callers.group_commit.next()

    assert 0 == callers.ways
    callers.group_commit.synced(3, SYNC_S)
    callers.come(2)
    callers.group_commit.next()
    assert callers.ways > 0


def test_a_long_sync_is_waited_for_half_a_millisecond_at_most() -> None:
    callers = Callers(way_s=0.0001)
    callers.group_commit.synced(2, 1.0)
    callers.come(1)
    callers.group_commit.next()

    assert 5 <= callers.ways <= 6
