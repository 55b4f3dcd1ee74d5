"""Erases rows of a lane: writes a new file without these rows for each segment, with a receipt in `lane.json`.

The new file has the number of the old file. A kill at any moment loses no other row. Between the new file and the deletion of
the old file, readers get `LaneError`, because the segment exists twice; `finish_rewrites` deletes the old file. This file knows
one lane, and no table.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mqflow.journal.arrow import compute as pc
from mqflow.journal.journal import Lane
from mqflow.journal.segment_chain import Rewrite, Tip
from mqflow.journal.segment_data import encode_table
from mqflow.journal.segments import Segment, check_segment, published_name, read_table, segment_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("erase_rows", "finish_rewrites")


def finish_rewrites(lane: Lane) -> None:
    """Delete the old file of each segment whose rewrite was interrupted after the new file was written."""
    found = (segment_of(lane.name, lane.folder, file) for file in lane.folder.files())
    there = {(each.number, each.rows, each.crc): each for each in found if each is not None}
    for said in lane.reread().rewrites:
        old = there.get((said.number, said.rows_before, said.crc_before))
        if old is not None and (said.number, said.rows, said.crc) in there:
            lane.folder.remove(old.name)


def erase_rows(lane: Lane, erased: "Callable[[pa.Table], pa.Array]") -> Iterator[Rewrite]:
    """Erase the rows for which `erased` returns true; yield the receipt of each rewritten segment.

    `erased` gets the rows of a segment, and returns a truth value for each row. Raises the errors of `read_table`.
    """
    before = lane.trimmed_tip
    for segment in lane.all_segments():
        rows = read_table(segment, lane.kind)
        gone = erased(rows)
        if pc.any(gone).as_py():
            said = _rewritten(lane, segment, rows.filter(pc.invert(gone)), before)
            before = Tip(number=said.number, rows=said.rows, crc=said.crc)
            yield said
        else:
            before = segment.tip


def _rewritten(lane: Lane, segment: Segment, rows: "pa.Table", before: Tip) -> Rewrite:
    link = check_segment(segment, lane.kind).link or lane.link_after(before)  # an older mqflow wrote no link
    encoded = encode_table(lane.kind, rows, link)
    made = Tip(number=segment.number, rows=encoded.rows, crc=encoded.crc)
    said = Rewrite(number=segment.number, rows_before=segment.rows, crc_before=segment.crc, rows=made.rows, crc=made.crc)
    lane.note(rewrite=said)  # first: `finish_rewrites` must know which file is the old one
    lane.folder.create(published_name(made), encoded.data)
    lane.folder.remove(segment.name)
    return said
