"""Finds damages of a lane: each segment names the segment before it, and records outside of the lane name the last segment.

A marker is a message on a queue, and a head record is a file outside of the lane: both name the last segment. A trim deletes
the first segments of a lane.

A damage is a segment that is missing, altered, doubled, or under the name of another segment. Pure: this file knows the names
and the contents of files; it reads none.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from mqflow.journal.segment_data import Contents, Link

__all__ = ("NOTHING", "Before", "Finding", "FoundSegment", "Rewrite", "Tip", "before_of", "findings")


class Tip(Struct, frozen=True, kw_only=True):
    """The last segment of a lane, according to a record outside of the segment: a marker, a head record, or a trim."""

    number: int = 0
    rows: int = 0
    crc: int = 0


NOTHING: Final = Tip()
"""The record of a lane without a segment."""

_Sum: TypeAlias = tuple[int, int]
"""The number of rows and the checksum of a segment."""


class Rewrite(Struct, frozen=True, kw_only=True):
    """The receipt of a segment that was rewritten in place, for example without the messages of one person.

    The next segment keeps the checksum from before the rewrite; the receipt has the checksum that replaced it.
    """

    number: int
    rows_before: int
    crc_before: int
    rows: int
    crc: int


class Before(Struct, frozen=True):
    """The segment that a segment must follow."""

    journal: str
    #: The number of rows and the checksum of that segment, also the values from before a rewrite; empty if they are unknown.
    sums: frozenset[_Sum]

    def problem(self, link: Link | None) -> str:
        """Return why a segment with this link is not the next segment; empty if it is, or if an older mqflow wrote no link."""
        if link is None:
            return ""
        if link.journal != self.journal:
            return f"it comes from the journal {link.journal}, and this is the journal {self.journal}"
        if self.sums and (link.rows_before, link.crc_before) not in self.sums:
            return (
                f"it follows a segment of {link.rows_before} rows with checksum {link.crc_before:08x}, and the segment before "
                "it is another one: somebody replaced one of them"
            )
        return ""


class FoundSegment(Struct, frozen=True, kw_only=True):
    """The facts about a file with the name of a segment: from its name, and from its bytes."""

    file: str
    number: int
    rows: int
    crc: int
    #: The checksum of the file's bytes.
    crc_of_bytes: int
    #: None if the bytes are not a segment of the lane's kind.
    contents: Contents | None
    #: Why `contents` is None.
    error: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    """One damage. Its segments are `first` to `last`; both are 0 if the lane as a whole is damaged."""

    lane: str
    first: int = 0
    last: int = 0
    text: str
    #: False if no file of the journal is damaged.
    in_files: bool = True


def before_of(journal: str, tip: Tip | None, rewrites: Sequence[Rewrite]) -> Before:
    """Return `tip`, with its sums from before each rewrite, for a check of the next segment. None means an unknown `tip`."""
    sums = set[_Sum]() if tip is None or not _is_known(tip) else {(tip.rows, tip.crc)}
    for said in reversed(rewrites if sums else ()):  # receipts are in the order of the rewrites
        if tip is not None and said.number == tip.number and (said.rows, said.crc) in sums:
            sums.add((said.rows_before, said.crc_before))
    return Before(journal, frozenset(sums))


def findings(
    journal: str,
    lane: str,
    files: Sequence[FoundSegment],
    *,
    trimmed: Tip = NOTHING,
    head: Tip = NOTHING,
    marker: Tip | None = None,
    rewrites: Sequence[Rewrite] = (),
) -> list[Finding]:
    """Return every damage of the lane, in the order of its segments.

    `trimmed`, `head` and `marker` name the last trimmed, the last published and the last committed segment. After a kill
    between publication and record, the head record is older than the lane.
    """
    files = [file for file in files if file.number > trimmed.number]  # a killed trim leaves files, which nobody reads
    problems = {file.file: _problem(journal, lane, file) for file in files}
    said = [tip for tip in (marker, head) if tip is not None]
    in_place = [file.number for file in files if _is_in_place(lane, file)]
    last = max([trimmed.number, *(tip.number for tip in said), *in_place])
    receipts = {(each.number, each.rows_before, each.crc_before): (each.rows, each.crc) for each in rewrites}
    found = [
        Finding(lane=lane, first=file.number, last=file.number, text=_text(file, problems[file.file]))
        for file in files
        if file.number > last
    ]
    if marker is not None and marker.number < last:
        found.append(_newer_than_its_marker(lane, marker, last))
    expected: _Sum | None = None
    missing = 0
    for number in range(last, trimmed.number, -1):
        here = [file for file in files if file.number == number]
        tip = next((tip for tip in said if tip.number == number), None)
        if expected is None and tip is not None:
            expected = (tip.rows, tip.crc)
        if not here:
            missing = missing or number
            expected = None
            continue
        if missing:
            found.append(_missing(lane, number + 1, missing, last))
            missing = 0
        good, damages = _judged(lane, here, problems, receipts, expected)
        found += damages
        link = None if good is None or good.contents is None else good.contents.link
        expected = None if link is None else (link.rows_before, link.crc_before)
    if missing:
        found.append(_missing(lane, trimmed.number + 1, missing, last))
    elif expected is not None and _is_known(trimmed) and _follows(receipts, trimmed.number, expected, trimmed) is False:
        number = trimmed.number + 1
        before = f"the trimmed segment {trimmed.number}" if trimmed.number else "no segment"
        text = f"segment {number} follows another segment than {before}: it or lane.json comes from another copy of the journal"
        found.append(Finding(lane=lane, first=number, last=number, text=text))
    return sorted(found, key=lambda finding: finding.first)


def _judged(
    lane: str,
    here: Sequence[FoundSegment],
    problems: Mapping[str, str],
    receipts: Mapping[tuple[int, int, int], _Sum],
    expected: _Sum | None,
) -> tuple[FoundSegment | None, list[Finding]]:
    """Return the good file of a segment, or None, and the damages of the other files with the number of this segment."""
    found: list[Finding] = []
    good: FoundSegment | None = None
    for file in here:
        problem = problems[file.file]
        sums = None if expected is None else _rewritten(receipts, file.number, expected)
        if not problem and sums is not None and (file.rows, file.crc) != sums:
            problem = (
                f"the next segment, or the record of the last one, says {sums[0]} rows with checksum {sums[1]:08x}: somebody "
                "replaced it"
            )
        if not problem and good is None:
            good = file
        else:
            problem = problem or f"{good.file if good else ''} is the same segment"
            found.append(Finding(lane=lane, first=file.number, last=file.number, text=_text(file, problem)))
    return good, found


def _problem(journal: str, lane: str, file: FoundSegment) -> str:
    """Return the problem that the file has by itself; empty if it has none."""
    contents = file.contents
    if contents is None:
        return file.error
    link = contents.link
    if (contents.lane, contents.number) != (lane, file.number):
        return f"it holds segment {contents.number} of lane {contents.lane}: somebody renamed or copied it"
    if problem := Before(journal, frozenset()).problem(link):
        return problem
    if file.crc_of_bytes != file.crc:
        return f"its bytes have the checksum {file.crc_of_bytes:08x}, and its name says {file.crc:08x}"
    if contents.rows != file.rows:
        return f"it has {contents.rows} rows, and its name says {file.rows}: somebody renamed it"
    return ""


def _text(file: FoundSegment, problem: str) -> str:
    return f"segment {file.number} ({file.file}): {problem}"


def _is_in_place(lane: str, file: FoundSegment) -> bool:
    """Return whether the contents say that the lane has a segment of this number."""
    return file.contents is not None and (file.contents.lane, file.contents.number) == (lane, file.number)


def _missing(lane: str, first: int, through: int, last: int) -> Finding:
    which = f"segment {first} is" if first == through else f"segments {first} to {through} are"
    return Finding(lane=lane, first=first, last=through, text=f"{which} missing; the last segment of the lane is {last}")


def _newer_than_its_marker(lane: str, marker: Tip, last: int) -> Finding:
    text = (
        f"the marker on the queue names segment {marker.number} as the last committed one, and the lane has segment {last}: "
        "one of them was restored from a copy"
    )
    return Finding(lane=lane, first=marker.number + 1, last=last, text=text)


def _is_known(tip: Tip) -> bool:
    """Return whether the record has a checksum: the trims of an older mqflow recorded the number only."""
    return not tip.number or bool(tip.rows)


def _rewritten(receipts: Mapping[tuple[int, int, int], _Sum], number: int, sums: _Sum) -> _Sum:
    """Return the rows and the checksum after all rewrites of the segment."""
    seen: set[_Sum] = set()
    while (number, *sums) in receipts and sums not in seen:
        seen.add(sums)
        sums = receipts[(number, *sums)]
    return sums


def _follows(receipts: Mapping[tuple[int, int, int], _Sum], number: int, expected: _Sum, tip: Tip) -> bool:
    return (tip.rows, tip.crc) in {expected, _rewritten(receipts, number, expected)}
