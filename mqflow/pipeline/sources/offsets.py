"""The offset of a query in a journal, the next segments that it takes, and their division into tasks.

A lane of a journal has the segments of one queue. An offset is the last segment taken of each lane. The functions are pure:
they take segments, and return offsets and parts. They know no Spark and no disk.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from mqflow.journal import JournalError, Segment

__all__ = ("ForeignOffsetError", "Limit", "admitted", "from_offset", "identities_in", "packed", "to_offset")

_JOURNAL: Final = "journal"
_LANES: Final = "lanes"
_IDENTITIES: Final = "identities"
_NO_IDENTITIES: Final[Mapping[str, int]] = {}


class ForeignOffsetError(JournalError):
    """A checkpoint belongs to another journal."""

    def __init__(self, journal: str, found: str) -> None:
        super().__init__(
            f"This checkpoint belongs to journal {found or 'none'}, and the journal here is {journal}: segment numbers "
            "mean nothing in another journal. Use the journal of the checkpoint, or a new checkpoint."
        )


class Limit(Struct, frozen=True, kw_only=True):
    """The most that one batch takes; None means no limit. A batch always takes at least one segment."""

    rows: int | None = None
    bytes: int | None = None


def to_offset(journal: str, lanes: Mapping[str, int], identities: Mapping[str, int] = _NO_IDENTITIES) -> dict[str, Any]:
    """Return the offset in the form that Spark keeps: JSON with the journal, and the last segment taken of each lane.

    It also has the known identities of the lanes with a segment (see `LaneFile`).
    """
    known = {lane: number for lane, number in sorted(identities.items()) if number and lanes.get(lane)}
    return {_JOURNAL: journal, _LANES: dict(sorted(lanes.items()))} | ({_IDENTITIES: known} if known else {})


def from_offset(journal: str, offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the last segment taken of each lane. Raises `ForeignOffsetError` if the journal differs."""
    found = offset.get(_JOURNAL, "")
    if found != journal:
        raise ForeignOffsetError(journal, str(found))
    return {str(lane): int(number) for lane, number in offset.get(_LANES, {}).items()}


def identities_in(offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the identities of lanes that the offset has; an offset of an older mqflow has none."""
    return {str(lane): int(number) for lane, number in offset.get(_IDENTITIES, {}).items()}


def admitted(start: Mapping[str, int], waiting: Mapping[str, Sequence[Segment]], limit: Limit) -> dict[str, int]:
    """Return the end of the next batch, which takes segments of all lanes in turn until a segment exceeds the limit.

    The number of segments taken so far decides which lane begins, so every lane gets its turn, even with a small limit.
    """
    reached = dict(start)
    lanes = sorted(lane for lane, segments in waiting.items() if segments)
    if not lanes:
        return reached
    first = sum(start.values()) % len(lanes)
    turns = [list(waiting[lane]) for lane in (*lanes[first:], *lanes[:first])]
    rows = size = 0
    for turn in range(max(map(len, turns))):
        for segments in turns:
            if turn >= len(segments):
                continue
            segment = segments[turn]
            rows, size = rows + segment.rows, size + segment.size_bytes
            taken_some = reached != start
            if taken_some and _over(limit, rows, size):
                return reached
            reached[segment.lane] = segment.number
    return reached


def packed(segments: Sequence[Segment], *, part_bytes: int, least: int) -> list[tuple[Segment, ...]]:
    """Return the segments, in order, as parts of about `part_bytes`. There are at least `least` parts if possible.

    A part has segments of one lane. Small segments share a part, because a task for each segment costs more than reading the
    segment.
    """
    target = min(part_bytes, -(-sum(segment.size_bytes for segment in segments) // max(1, least)))
    parts: list[list[Segment]] = []
    size = 0
    for segment in segments:
        fits = parts and parts[-1][0].lane == segment.lane and size + segment.size_bytes <= target
        if fits:
            parts[-1].append(segment)
            size += segment.size_bytes
        else:
            parts.append([segment])
            size = segment.size_bytes
    return [tuple(part) for part in parts]


def _over(limit: Limit, rows: int, size: int) -> bool:
    return (limit.rows is not None and rows > limit.rows) or (limit.bytes is not None and size > limit.bytes)
