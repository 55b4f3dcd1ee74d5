"""How far a query has come in a journal, what it takes next, and how that is cut into tasks.

An offset is the last segment of each lane that was taken. Pure: segments in, offsets and parts out; knows no Spark and no disk.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from mqflow.journal import JournalError, Segment

__all__ = ("ForeignOffsetError", "Limit", "admitted", "from_offset", "packed", "to_offset")

_JOURNAL: Final = "journal"
_LANES: Final = "lanes"


class ForeignOffsetError(JournalError):
    """A checkpoint belongs to another journal."""

    def __init__(self, journal: str, found: str) -> None:
        super().__init__(
            f"This checkpoint was made with journal {found or 'none'}, and the journal here is {journal}: numbers of segments "
            "mean nothing in another journal. Use the journal it was made with, or a new checkpoint."
        )


class Limit(Struct, frozen=True, kw_only=True):
    """How much one batch takes at most; None is no limit. The first segment is always taken: less is not possible."""

    rows: int | None = None
    bytes: int | None = None


def to_offset(journal: str, lanes: Mapping[str, int]) -> dict[str, Any]:
    """Return the offset as Spark keeps it: JSON that names the journal, and the last segment taken of each lane."""
    return {_JOURNAL: journal, _LANES: dict(sorted(lanes.items()))}


def from_offset(journal: str, offset: Mapping[str, Any]) -> dict[str, int]:
    """Return the last segment taken of each lane. Raises `ForeignOffsetError` where the offset is of another journal."""
    found = offset.get(_JOURNAL, "")
    if found != journal:
        raise ForeignOffsetError(journal, str(found))
    return {str(lane): int(number) for lane, number in offset.get(_LANES, {}).items()}


def admitted(start: Mapping[str, int], waiting: Mapping[str, Sequence[Segment]], limit: Limit) -> dict[str, int]:
    """Return how far the next batch goes: segments of all lanes in turn, until the next one would be over the limit.

    Each lane's turn comes: which one begins follows from how much was taken before, so a small limit starves nobody.
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
    """Return the segments as parts of about that size, in order, each of one lane; `least` parts where there are so many.

    Small segments share a part: a task for each would cost more than reading it.
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
