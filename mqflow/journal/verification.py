"""Verifies a journal: reads every file, and names every damage of every lane.

Meanwhile a lander can add segments, and a trim can delete segments, because records are read before the files that they name.
This file knows the folders of a journal; `segment_chain` has the decisions.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol
from urllib.parse import unquote

from msgspec import Struct

from mqflow.journal.errors import ForeignJournalError, JournalError, LaneError, TornSegmentError
from mqflow.journal.heads import Head, heads
from mqflow.journal.journal import Journal, Lane, LaneFile, folder_name, read_file
from mqflow.journal.schemas import Kind
from mqflow.journal.segment_chain import NOTHING, Finding, FoundSegment, findings
from mqflow.journal.segment_data import checksum, inspect
from mqflow.journal.segments import Written, segment_of, verify

__all__ = ("Markers", "Verified", "verify_journal")


class Markers(Protocol):
    """The markers on the state queue of a queue manager. A marker names the last committed segment of a lane."""

    @property
    def queue_manager(self) -> str:
        """The queue manager of the markers."""
        ...

    def lanes(self) -> list[str]:
        """Return the lanes of the journal that have a marker."""
        ...

    def committed(self, lane: str) -> Written | None:
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
    #: The queue manager of the lane if the markers are on another one: the lane was not compared with its marker.
    elsewhere: str = ""


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
            marker = markers.committed(marked[name]) if markers is not None and name in marked else None
            yield from _without_file(journal, name, text, known, marker, interrupted=missing)
            continue
        try:
            checked = _verified(journal, name, said, known, markers)
        except LaneError as error:
            checked = Verified(lane=said.lane, kind=said.kind, findings=(Finding(lane=said.lane, text=str(error)),))
        yield checked


def _without_file(
    journal: Journal, name: str, text: str, known: dict[str, Head | None], marker: Written | None, *, interrupted: bool
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
    elsewhere = ""
    if markers is not None and markers.queue_manager != said.queue_manager:
        markers, elsewhere = None, said.queue_manager
    of_head: list[Finding] = []
    head = known.get(name)
    if head is None and (name in known or said.has_head):
        what = "cannot be read" if name in known else "is missing"
        of_head.append(Finding(lane=lane.name, text=f"its head record {what}, so a lost tail shows only against its marker"))
    while True:
        trimmed = lane.trimmed_tip
        marker = None if markers is None else markers.committed(lane.name)
        general = list(of_head)
        if markers is not None and marker is None and said.claimed:
            text = "its marker is not on the state queue: name the queue manager of the lane, or use mqflow journal settle"
            general.append(Finding(lane=lane.name, text=text, in_files=False))
        torn = None if marker is None else _torn(lane, marker)  # before the files: a lander can publish the segment meanwhile
        files = list(_files(lane))
        last = max((file.number for file in files), default=trimmed.number)
        if marker is not None and marker.number > last and torn is None:
            marker = None  # committed, and the lander or the next one publishes it
        elif marker is not None and marker.number == last + 1 and torn is not None:
            text = f"segment {marker.number} was committed and is not published. {torn}"
            general.append(Finding(lane=lane.name, first=marker.number, last=marker.number, text=text))
            marker = None
        elif marker is not None and marker.number < last and markers is not None and markers.committed(lane.name) != marker:
            marker = None  # a lander runs, and has committed more since
        receipts = lane.reread().rewrites
        tip = NOTHING if head is None else head.tip
        end = None if marker is None else marker.tip
        found = findings(journal.id, lane.name, files, trimmed=trimmed, head=tip, marker=end, rewrites=receipts)
        if lane.trimmed_tip == trimmed:  # otherwise a trim deleted files meanwhile
            rows = sum(file.rows for file in files if file.number > trimmed.number)
            count = sum(file.number > trimmed.number for file in files)
            every = (*general, *found)
            return Verified(lane=lane.name, kind=lane.kind, segments=count, rows=rows, findings=every, elsewhere=elsewhere)


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


def _torn(lane: Lane, marker: Written) -> TornSegmentError | None:
    """Return why the pending file of the marked segment is not whole; None if it is whole."""
    try:
        verify(lane.folder, marker)
    except TornSegmentError as error:
        return error
    return None
