"""Verifies a journal: reads every file, and names every damage of every lane.

Meanwhile a lander can add segments, and a trim can delete segments, because records are read before the files that they name.
This file knows the folders of a journal; `segment_chain` has the decisions.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol
from urllib.parse import unquote

from msgspec import Struct

from mqflow.journal.errors import ForeignJournalError, JournalError
from mqflow.journal.heads import Head, heads
from mqflow.journal.journal import Journal, Lane, LaneFile, folder_name, read_file
from mqflow.journal.schemas import Kind
from mqflow.journal.segment_chain import NOTHING, Finding, FoundSegment, Tip, findings
from mqflow.journal.segment_data import checksum, inspect
from mqflow.journal.segments import segment_of

__all__ = ("Markers", "Verified", "verify_journal")


class Markers(Protocol):
    """The markers on the state queue of a queue manager. A marker names the last committed segment of a lane."""

    def lanes(self) -> list[str]:
        """Return the lanes of the journal that have a marker."""
        ...

    def tip(self, lane: str) -> Tip | None:
        """Return the last committed segment of the lane; None if the lane has no marker."""
        ...


class Verified(Struct, frozen=True, kw_only=True):
    """The result for one lane."""

    lane: str
    #: None if the lane cannot be opened.
    kind: Kind | None = None
    segments: int = 0
    rows: int = 0
    findings: tuple[Finding, ...] = ()


def verify_journal(journal: Journal, markers: Markers | None = None) -> Iterator[Verified]:
    """Yield the result of each lane, by name, also of a lane that is lost. `markers` adds the comparison with the queue."""
    lanes = journal.folder.folder("lanes")
    known = heads(journal.folder)
    marked = {folder_name(lane): lane for lane in ([] if markers is None else markers.lanes())}
    for name in sorted({*lanes.folders(), *known, *marked}):
        try:
            said = read_file(lanes.folder(name), "lane.json", LaneFile)
        except (FileNotFoundError, ForeignJournalError) as error:
            missing = isinstance(error, FileNotFoundError)
            text = "lane.json is missing" if missing else f"lane.json cannot be read: {error}"
            tip = markers.tip(marked[name]) if markers is not None and name in marked else None
            yield from _without_file(journal, name, text, known, tip, interrupted=missing)
            continue
        yield _verified(journal, name, said, known, markers)


def _without_file(
    journal: Journal, name: str, text: str, known: dict[str, Head | None], marker: Tip | None, *, interrupted: bool
) -> Iterator[Verified]:
    """Yield the damage of a lane without its `lane.json`, unless only its creation was interrupted."""
    head = known.get(name)
    folder = journal.folder.folder("lanes").folder(name)
    last = max(0 if head is None else head.number, 0 if marker is None else marker.number)
    files = [file for file in folder.files() if segment_of(name, folder, file)]
    if interrupted and not last and not files and (name not in known or head is not None):
        return
    lane = unquote(name) if head is None else head.lane
    if not files:
        text = (
            f"the lane is missing; its last segment was {last}"
            if last
            else "the lane is missing, and its head record is damaged"
        )
    yield Verified(lane=lane, findings=(Finding(lane=lane, first=min(last, 1), last=last, text=text),))


def _verified(journal: Journal, name: str, said: LaneFile, known: dict[str, Head | None], markers: Markers | None) -> Verified:
    if folder_name(said.lane) != name:
        text = f"the folder {name} says that it is lane {said.lane}: somebody copied or renamed it"
        return Verified(lane=unquote(name), kind=said.kind, findings=(Finding(lane=unquote(name), text=text),))
    lane = journal.lane(said.lane)
    general: list[Finding] = []
    head = known.get(name)
    if head is None and (name in known or said.has_head):
        what = "cannot be read" if name in known else "is missing"
        general.append(Finding(lane=lane.name, text=f"its head record {what}, so a lost tail shows only against its marker"))
    while True:
        trimmed = lane.trimmed_tip
        marker = None if markers is None else markers.tip(lane.name)
        if markers is not None and marker is None and said.claimed:
            text = "its marker is not on the state queue: name the queue manager of the lane, or use mqflow journal settle"
            general = [*general[:1], Finding(lane=lane.name, text=text)]
        pending = lane.pending()
        files = list(_files(lane))
        last = max((file.number for file in files), default=trimmed.number)
        if marker is not None and marker.number > last and _is_pending(pending, marker.number):
            marker = None  # committed, and the lander or the next one publishes it
        elif marker is not None and marker.number < last and markers is not None and markers.tip(lane.name) != marker:
            marker = None  # a lander runs, and has committed more since
        receipts = lane.reread().rewrites
        tip = NOTHING if head is None else head.tip
        found = findings(journal.id, lane.name, files, trimmed=trimmed, head=tip, marker=marker, rewrites=receipts)
        if lane.trimmed_tip == trimmed:  # otherwise a trim deleted files meanwhile
            rows = sum(file.rows for file in files if file.number > trimmed.number)
            count = sum(file.number > trimmed.number for file in files)
            return Verified(lane=lane.name, kind=lane.kind, segments=count, rows=rows, findings=(*general, *found))


def _files(lane: Lane) -> Iterator[FoundSegment]:
    for file in lane.folder.files():
        segment = segment_of(lane.name, lane.folder, file)
        if segment is None:
            continue
        with suppress(FileNotFoundError):  # trimmed since the folder was listed
            data = lane.folder.read(segment.name)
            contents, error = None, ""
            try:
                contents = inspect(data, lane.kind, where=segment.uri)
            except JournalError as problem:
                error = str(problem)
            yield FoundSegment(
                file=segment.name,
                number=segment.number,
                rows=segment.rows,
                crc=segment.crc,
                crc_of_bytes=checksum(data),
                contents=contents,
                error=error,
            )


def _is_pending(pending: tuple[str, ...], number: int) -> bool:
    return any(name.startswith(f"{number:012d}-") for name in pending)
