"""Rows are erased from segments in place: numbers stay, and the chain of checksums is sound."""

from pathlib import Path

import pyarrow as pa
import pytest

from mqflow.journal import Journal, Kind, Lane, read_table
from mqflow.journal.erasure import erase_rows
from mqflow.journal.verification import verify_journal
from mqflow.testing.journals import add_segment, generate_journal, invented
from tests.journal.old_segments import add_old_segment


def even(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([[at % 2 == 0 for at in range(rows.num_rows)]])


def ordinals(lane: Lane) -> list[tuple[int, list[int]]]:
    return [(each.number, read_table(each, lane.kind)["ordinal"].to_pylist()) for each in lane.all_segments()]


@pytest.mark.parametrize("kind", list(Kind))
def test_the_rows_of_every_kind_that_stay_are_the_same(tmp_path: Path, kind: Kind) -> None:
    lane = generate_journal(tmp_path / "journal", kind, segments=2, rows=5)
    before = [read_table(each, kind) for each in lane.all_segments()]

    receipts = list(erase_rows(lane, even))

    assert [(1, 5, 2), (2, 5, 2)] == [(each.number, each.rows_before, each.rows) for each in receipts]
    assert [rows.take([1, 3]) for rows in before] == [read_table(each, kind) for each in lane.all_segments()]
    assert [] == [finding for each in verify_journal(Journal.open(tmp_path / "journal")) for finding in each.findings]


def test_segments_of_an_older_mqflow_are_rewritten_with_a_link(tmp_path: Path) -> None:
    lane = Journal.create(tmp_path / "journal").add_lane("D", Kind.PAYLOAD, queue="D", queue_manager="QM1")
    for _ in range(2):
        add_old_segment(lane, invented(Kind.PAYLOAD, 3, seed=1))
    add_segment(lane, invented(Kind.PAYLOAD, 3, seed=2))

    list(erase_rows(lane, even))

    assert [(1, [1]), (2, [1]), (3, [1])] == ordinals(lane)
    assert [] == [finding for each in verify_journal(Journal.open(tmp_path / "journal")) for finding in each.findings]
