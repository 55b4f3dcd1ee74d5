"""The end of a batch and its division into parts, without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.folders import folder_at
from mqflow.journal import Segment
from mqflow.pipeline.sources.offsets import ForeignOffsetError, Limit, admitted, from_offset, identities_in, packed, to_offset

FOLDER = folder_at("/journal/lanes/L")


def segments(lane: str, numbers: range, *, rows: int = 10, size: int = 100) -> list[Segment]:
    return [Segment(lane, number, rows, 0, FOLDER, str(number), size, 0.0) for number in numbers]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit(), {"A": 3, "B": 2}),
        (Limit(rows=10), {"A": 1, "B": 0}),
        (Limit(rows=29), {"A": 1, "B": 1}),
        (Limit(rows=30), {"A": 2, "B": 1}),
        (Limit(bytes=200), {"A": 1, "B": 1}),
        (Limit(rows=1), {"A": 1, "B": 0}),  # less than a segment is not possible
        (Limit(rows=1_000, bytes=100), {"A": 1, "B": 0}),
    ],
)
def test_a_batch_takes_segments_of_all_lanes_in_turn_up_to_the_limit(limit: Limit, expected: dict[str, int]) -> None:
    waiting = {"A": segments("A", range(1, 4)), "B": segments("B", range(1, 3))}

    assert expected == admitted({"A": 0, "B": 0}, waiting, limit)


def test_nothing_waiting_leaves_the_offset_where_it_was() -> None:
    assert {"A": 7} == admitted({"A": 7}, {"A": []}, Limit(rows=1))


@given(
    lanes=st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 12), min_size=1),
    rows=st.integers(1, 100),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
)
def test_whatever_the_limit_every_segment_is_taken_once_and_no_lane_waits_for_long(
    lanes: dict[str, int], rows: int, sizes: list[int]
) -> None:
    all_segments = {
        lane: [Segment(lane, n, sizes[n % len(sizes)], 0, FOLDER, str(n), 1, 0.0) for n in range(1, count + 1)]
        for lane, count in lanes.items()
    }
    reached = dict.fromkeys(lanes, 0)
    batches = 0
    while True:
        waiting = {lane: [each for each in found if each.number > reached[lane]] for lane, found in all_segments.items()}
        after = admitted(reached, waiting, Limit(rows=rows))
        if after == reached:
            break
        taken = [each for lane in waiting for each in waiting[lane] if each.number <= after[lane]]
        assert len(taken) == 1 or sum(each.rows for each in taken) <= rows
        reached, batches = after, batches + 1
        if batches == 4 * len(lanes):  # every lane has had its turn by now
            assert all(reached[lane] for lane, count in lanes.items() if count)

    assert lanes == reached


def test_small_segments_share_a_part_and_a_part_has_one_lane() -> None:
    parts = packed([*segments("A", range(1, 6)), *segments("B", range(1, 3))], part_bytes=250, least=1)

    assert [("A", [1, 2]), ("A", [3, 4]), ("A", [5]), ("B", [1, 2])] == [
        (part[0].lane, [segment.number for segment in part]) for part in parts
    ]


def test_few_segments_are_still_spread_over_the_least_number_of_parts() -> None:
    assert [[1, 2], [3, 4]] == [
        [each.number for each in part] for part in packed(segments("A", range(1, 5)), part_bytes=10**9, least=2)
    ]


def test_an_empty_range_has_no_parts() -> None:
    assert [] == packed([], part_bytes=100, least=2)


def test_an_offset_is_of_the_journal_it_was_made_with() -> None:
    offset = to_offset("one", {"B": 2, "A": 1})

    assert ({"A": 1, "B": 2}, {}) == (from_offset("one", offset), identities_in(offset))
    with pytest.raises(ForeignOffsetError, match="belongs to journal one, and the journal here is two"):
        from_offset("two", offset)


def test_an_offset_has_the_known_identity_of_each_lane_with_a_segment() -> None:
    assert {"A": 7} == identities_in(to_offset("one", {"A": 1, "B": 0, "C": 3}, {"A": 7, "B": 8, "C": 0}))
