"""Reads the whole log once when a store opens it: finds its end, and tells a torn end from damage.

A power cut can leave any part of the groups after the last sync. Nobody acknowledged them, so the log ends before the first
group that is not whole. A damaged group that was certainly synced is never dropped in silence. This module writes nothing.
"""

from collections.abc import Iterator

from msgspec import Struct

from mqflow.embedded.storage.log.contents import Contents, Usage
from mqflow.embedded.storage.log.files import SegmentFiles
from mqflow.embedded.storage.log.groups import (
    SEGMENT_HEAD_BYTES,
    Group,
    certain_later,
    group_at,
    is_whole,
    records_of,
    segment_base,
)
from mqflow.embedded.storage.medium import DamagedError

__all__ = ("End", "replay")


class End(Struct):
    """The end of the log: the next group goes here."""

    segment: int
    at: int
    #: The sequence number and the link of the last group.
    sequence: int
    chain: int


def replay(files: SegmentFiles, synced: int) -> tuple[Contents, End]:
    """Return the contents and the end. Raises `DamagedError`.

    `synced` is a sequence number that was certainly synced; 0 if nothing is known.
    """
    numbers = _latest_run(files.numbers())
    contents = Contents()
    end: End | None = None
    for number in numbers:
        end = _replay_segment(files, number, contents, end, synced)
        if end.segment == number:  # the segment is not sealed, so it is the last one
            break
    if end is None or end.segment > numbers[-1]:
        raise DamagedError(f"segment {1 if end is None else end.segment} is missing")
    _check_unused(files, [number for number in numbers if number > end.segment], end)
    if end.sequence < synced:
        raise DamagedError(f"segment {end.segment} has lost its end")
    first = contents.number("first", 1)
    if first < numbers[0]:
        raise DamagedError(f"segment {first} is missing")
    return contents, end


def _replay_segment(files: SegmentFiles, number: int, contents: Contents, end: End | None, synced: int) -> End:
    """Apply the groups of a segment. Return the end of the log; after a sealed segment that is the begin of the next one."""
    size = files.size(number)
    data = files.read(number, 0, size)
    base = segment_base(data[:SEGMENT_HEAD_BYTES], number)
    if base is None:
        raise DamagedError(f"the header of segment {number} is damaged")
    after, chain = (base, None) if end is None else (max(base, end.sequence), end.chain)
    groups = list(_groups(data, after, chain))
    if not (groups and groups[-1].seals):
        groups = _without_torn_end(data, groups, number, after, synced)
    contents.segments[number] = Usage(size)
    for group in groups:
        for record in records_of(data, group):
            contents.apply(record, number)
    if not groups:
        return End(number, SEGMENT_HEAD_BYTES, after, chain or 0)
    last = groups[-1]
    if last.seals:
        return End(number + 1, SEGMENT_HEAD_BYTES, last.sequence, last.link)
    return End(number, last.end, last.sequence, last.link)


def _latest_run(numbers: list[int]) -> list[int]:
    """Return the latest segments without a gap. A power cut can bring back dropped segments before a gap."""
    start = len(numbers) - 1
    while start > 0 and numbers[start - 1] == numbers[start] - 1:
        start -= 1
    return numbers[start:]


def _groups(data: bytes, after: int, chain: int | None) -> Iterator[Group]:
    at = SEGMENT_HEAD_BYTES
    while (group := group_at(data, at, after, chain)) is not None:
        yield group
        if group.seals:
            return
        at, after, chain = group.end, group.sequence, group.link


def _without_torn_end(data: bytes, groups: list[Group], number: int, after: int, synced: int) -> list[Group]:
    at, last = (groups[-1].end, groups[-1].sequence) if groups else (SEGMENT_HEAD_BYTES, after)
    if certain_later(data, at, last):
        raise DamagedError(f"the group at {at} of segment {number} is damaged")
    certain = max((group.certain for group in groups), default=0)
    for index, group in enumerate(groups):
        if group.sequence > max(certain, synced) and not is_whole(data, group):
            return groups[:index]
    return groups


def _check_unused(files: SegmentFiles, numbers: list[int], end: End) -> None:
    """Raise `DamagedError` if a segment behind the end was in use. A crash can leave one unused segment."""
    for number in numbers:
        data = files.read(number, 0, files.size(number))
        base = segment_base(data[:SEGMENT_HEAD_BYTES], number)
        if base is not None and group_at(data, SEGMENT_HEAD_BYTES, base, None) is not None:
            raise DamagedError(f"the end of segment {end.segment} is damaged")
