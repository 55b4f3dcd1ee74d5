"""The comparison of a journal with the markers of its lanes, while segments are committed, published and trimmed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict

from mqflow.journal import Consumers, Journal, Kind, Lane
from mqflow.journal.heads import Head, write_head
from mqflow.journal.segment_data import checksum
from mqflow.journal.segments import Written, pending_name
from mqflow.journal.verification import verify_journal
from mqflow.testing.journals import generate_journal
from tests.journal.files import path_of


class Markers:
    """The markers of lane A; `each_time` runs when the marker is read."""

    def __init__(self, committed: Written | None, each_time: Callable[[], object] = lambda: None, name: str = "QM1") -> None:
        self.queue_manager = name
        self._committed = committed
        self._each_time = each_time

    def lanes(self) -> list[str]:
        return [] if self._committed is None else ["A"]

    def committed(self, lane: str) -> Written | None:
        assert "A" == lane
        self._each_time()
        return self._committed


@pytest.fixture
def lane(tmp_path: Path) -> Lane:
    """A lane with one published segment, and one that was committed and is not published yet."""
    generate_journal(tmp_path / "j", Kind.PAYLOAD, segments=2, rows=3, lane="A")
    lane = Journal.open(tmp_path / "j").lane("A")
    path_of(lane.all_segments()[1]).rename(pending(lane))
    write_head(lane.journal, "A", Head(lane="A", **asdict(lane.tip)))
    lane.note(claimed=True)
    return lane


def pending(lane: Lane, owner: int = 1) -> Path:
    return path_of(lane) / pending_name(2, owner)


def committed(lane: Lane) -> Written:
    data = pending(lane).read_bytes()
    return Written(2, 3, checksum(data), len(data), owner=1)


def found(lane: Lane, markers: Markers) -> list[str]:
    return [each.text for one in verify_journal(Journal.open(lane.journal), markers) for each in one.findings]


def test_a_committed_segment_whose_pending_file_is_whole_is_sound(lane: Lane) -> None:
    assert [] == found(lane, Markers(committed(lane)))


@pytest.mark.parametrize("damage", ["torn", "changed", "gone", "only of another lander"])
def test_a_committed_segment_without_its_whole_pending_file_is_named(lane: Lane, damage: str) -> None:
    markers, path = Markers(committed(lane)), pending(lane)
    match damage:
        case "torn":
            path.write_bytes(path.read_bytes()[:100])
        case "changed":
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        case "gone":
            path.unlink()
        case _:
            path.rename(pending(lane, owner=99))

    [text] = found(lane, markers)
    assert text.startswith(f"segment 2 was committed and is not published. The segment {path} is damaged: ")


def test_a_missing_marker_is_named_once_although_a_trim_runs_meanwhile(lane: Lane) -> None:
    consumers = Consumers(Journal.open(lane.journal))
    consumers.commit("reader", {"A": 1})
    reads: list[None] = []

    def trims() -> None:  # after the verification has read `trimmed`, and before it lists the files
        reads.append(None)
        consumers.trim()

    texts = found(lane, Markers(None, trims))

    assert 1 == sum("its marker is not on the state queue" in text for text in texts), texts
    assert (1, 2) == (lane.trimmed, len(reads))


def test_the_markers_of_another_queue_manager_are_not_compared(lane: Lane) -> None:
    journal = Journal.open(lane.journal)
    [one] = verify_journal(journal, Markers(None, name="QM9"))

    assert lane.queue_manager == one.elsewhere
