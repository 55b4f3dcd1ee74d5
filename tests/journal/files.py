"""The files of a journal on a disk, for tests that damage them."""

from pathlib import Path
from shutil import copytree

from mqflow.journal import Journal, Lane, Segment
from mqflow.testing.journals import add_segment, generate_journal, invented

__all__ = ("every_row", "exchange", "path_of")


def path_of(found: Journal | Lane | Segment) -> Path:
    """Return the path of the folder or the file."""
    assert found.folder.path is not None, "it is in an object store"
    return found.folder.path / found.name if isinstance(found, Segment) else found.folder.path


def every_row(journal: Path) -> list[tuple[str, int, int]]:
    """Return the lane, the segment and the place of each row, in order."""
    return [
        (lane.name, segment.number, ordinal)
        for lane in Journal.open(journal).lanes()
        for segment in lane.all_segments()
        for ordinal in range(segment.rows)
    ]


def exchange(segment: Segment, damage: str, scratch: Path) -> None:
    """Damage the file of the segment, or replace it by a sound segment of the same number and lane.

    `damage` is `bytes`, `journal` (from another journal) or `history` (from a copy of the journal that went on differently).
    """
    path = path_of(segment)
    if damage == "bytes":
        data = path.read_bytes()
        path.write_bytes(data[:-9] + b"x" + data[-8:])
        return
    home, other = path.parents[2], scratch / "another journal"
    lane = Journal.open(home).lane(segment.lane)
    if damage == "history":
        copytree(home, other)
        copied = Journal.open(other).lane(segment.lane)
        for each in copied.segments(after=segment.number - 1):
            path_of(each).unlink()
        add_segment(copied, invented(lane.kind, segment.rows, seed=9))
    else:
        copied = generate_journal(other, lane.kind, segments=segment.number, rows=segment.rows, lane=segment.lane, seed=9)
    found = next(each for each in copied.folder.files() if each.name.startswith(f"{segment.number:012d}"))
    path.unlink()
    path.with_name(found.name).write_bytes(copied.folder.read(found.name))
