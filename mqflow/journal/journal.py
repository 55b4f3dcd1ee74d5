"""The folder of a journal: its lanes, and the segments of each lane, in order and without gaps.

A lane has the messages of one queue, in segments. A lander adds segments, and a trim deletes the segments that all consumers
have read. The marker of a lane is a message of its lander on a queue; it names the last committed segment.

Layout: `journal.json`, `lanes/<lane>/lane.json`, `lanes/<lane>/first-marker`, `lanes/<lane>/<segment files>`,
`heads/<lane>.json`, `consumers/<name>.json`.
Small files are replaced as a whole, and only if they still have the contents that were read: two processes do not overwrite
each other. This file knows folders. It writes no segment, and knows no queue manager.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from mqflow.folders import ChangedError, Folder, folder_at
from mqflow.journal.errors import ForeignJournalError, JournalVersionError, LaneError, MissingSegmentError
from mqflow.journal.heads import Head, create_head, read_head, write_head
from mqflow.journal.schemas import Kind
from mqflow.journal.segment_chain import Before, Rewrite, Tip, before_of
from mqflow.journal.segment_data import Link
from mqflow.journal.segments import Segment, Written, is_pending, publish, segment_of
from mqflow.world import SYSTEM_RANDOM, Random

__all__ = ("JOURNAL_VERSION", "Journal", "Lane", "LaneFile", "change_file", "create_file", "folder_name", "read_file")

JOURNAL_VERSION: Final = 1
"""The version of the files of a journal, in its `journal.json`."""
_FORMAT: Final = "mqflow-journal"
_FILE: Final = "journal.json"
_LANE_FILE: Final = "lane.json"
_FIRST_MARKER_FILE: Final = "first-marker"

R = TypeVar("R", bound=Struct)


class _JournalFile(Struct, frozen=True, kw_only=True):
    format: str = ""
    version: int = 0
    #: The identifier of this journal. The marker of each lane, a message on a queue, contains this identifier.
    id: str = ""


class LaneFile(Struct, frozen=True, kw_only=True):
    """The contents of `lane.json`."""

    lane: str
    kind: Kind
    queue: str
    queue_manager: str
    #: A random number that tells the lane from an earlier lane of its name, which was deleted. 0 if it is unknown: an older
    #: mqflow made the lane, or the file was lost and made again.
    identity: int = 0
    #: True if the marker of the lane was ever on its queue: a missing marker is then lost. False for a new lane.
    claimed: bool = False
    #: The last segment that was deleted because every consumer had read it.
    trimmed: int = 0
    #: The number of rows and the checksum of the segment `trimmed`; the next segment contains these values. 0 after a trim
    #: of an older mqflow.
    trimmed_rows: int = 0
    trimmed_crc: int = 0
    #: True if the lane was created with a head record.
    has_head: bool = False
    #: The receipts of segments that were rewritten in place.
    rewrites: tuple[Rewrite, ...] = ()


class Journal(Struct, frozen=True):
    """An existing journal."""

    folder: Folder
    id: str

    @classmethod
    def create(cls, where: Folder | str | Path, *, random: Random = SYSTEM_RANDOM) -> "Journal":
        """Return the journal in this folder, and create it if the folder is empty or missing.

        A text is a path or a URI, as `folder_at` reads it. Raises `FolderError` if the folder cannot be used,
        `ForeignJournalError` if it holds something else, `JournalVersionError` if a newer mqflow made it.
        """
        folder = _folder_of(where)
        found = _opened(folder)
        if found is not None:
            return found
        if _is_foreign(folder):
            found = _opened(folder)
            if found is not None:  # another process was faster
                return found
            raise ForeignJournalError(folder.uri, "it is a file, or a folder with something else in it")
        for each in (folder, *_parts(folder)):
            each.make()
        create_file(folder, _FILE, _JournalFile(format=_FORMAT, version=JOURNAL_VERSION, id=_new_id(random)))
        return cls.open(folder)

    @classmethod
    def open(cls, where: Folder | str | Path) -> "Journal":
        """Return the journal in this folder. Raises the errors of `create`, and `ForeignJournalError` if no journal exists."""
        folder = _folder_of(where)
        found = _opened(folder)
        if found is None:
            raise ForeignJournalError(folder.uri, f"there is no {_FILE} in it")
        return found

    def lanes(self) -> tuple["Lane", ...]:
        """Return the lanes, by name. Raises `LaneError` for a copy of a lane's folder: the copy would repeat every row."""
        found: list[Lane] = []
        there = self.folder.folder("lanes")
        for name in there.folders():
            folder = there.folder(name)
            with suppress(FileNotFoundError):  # its creation was interrupted
                lane = self._lane(read_file(folder, _LANE_FILE, LaneFile))
                if lane.folder != folder:
                    raise LaneError(
                        f"{folder.uri} says that it is lane {lane.name}, whose folder is {lane.folder.uri}: somebody copied or "
                        "renamed it. Nothing was changed. Move a copy out of the journal, or give the folder its old name "
                        "again."
                    )
                found.append(lane)
        return tuple(sorted(found, key=lambda lane: lane.name))

    def lane(self, name: str) -> "Lane":
        """Return the lane of that name. Raises `LaneError` if it does not exist."""
        try:
            return self._lane(read_file(self._folder(name), _LANE_FILE, LaneFile))
        except FileNotFoundError:
            known = ", ".join(lane.name for lane in self.lanes()) or "none"
            raise LaneError(f"The journal {self.folder.uri} has no lane {name!r}. It has: {known}.") from None

    def is_new(self, lane: str) -> bool:
        """Return whether the journal has neither a lane of that name nor a segment of it."""
        folder = self._folder(lane)
        return not folder.exists(_LANE_FILE) and not any(segment_of(lane, folder, file) for file in folder.files())

    def add_lane(self, name: str, kind: Kind, *, queue: str, queue_manager: str) -> "Lane":
        """Return the lane, and create it if it is missing. Raises `LaneError` if it belongs to another queue or kind.

        Use `Consumers.add_lane` if consumers can have offsets in a removed lane of the same name.
        """
        folder = self._folder(name)
        if not folder.exists(_LANE_FILE):
            identity = 1 + int(SYSTEM_RANDOM.random() * 2**48) if self.is_new(name) else 0
            create_head(self.folder, folder_name(name), name)
            folder.make()
            made = LaneFile(lane=name, kind=kind, queue=queue, queue_manager=queue_manager, identity=identity, has_head=True)
            create_file(folder, _LANE_FILE, made)
        lane = self._lane(read_file(folder, _LANE_FILE, LaneFile))
        wanted, there = (kind, queue, queue_manager), (lane.kind, lane.queue, lane.queue_manager)
        if wanted != there:
            raise LaneError(
                f"Lane {name} of {self.folder.uri} holds {there[0]} of {there[1]} ({there[2]}), not {kind} of {queue} "
                f"({queue_manager}). Name another lane, or another journal."
            )
        return lane

    def _folder(self, name: str) -> Folder:
        return self.folder.folder("lanes").folder(folder_name(name))

    def _lane(self, said: LaneFile) -> "Lane":
        return Lane(said.lane, said.kind, said.queue, said.queue_manager, self._folder(said.lane), self.folder, self.id, said)


class Lane(Struct, frozen=True):
    """A stream of immutable segments, numbered from 1."""

    name: str
    kind: Kind
    queue: str
    queue_manager: str
    folder: Folder
    #: The folder of the journal, and its identifier.
    journal: Folder
    journal_id: str
    #: The contents of `lane.json` when the lane was looked up.
    file: LaneFile

    def segments(self, after: int = 0, through: int | None = None) -> tuple[Segment, ...]:
        """Return the segments with numbers above `after`, up to `through`, in order.

        Raises `MissingSegmentError` if one of these segments was trimmed or is lost: the result is never incomplete.
        """
        # Read the record before the list of files, because a segment is published before the record names it.
        head = read_head(self.journal, folder_name(self.name)) if through is None else None
        found = sorted(
            segment
            for segment in self._published()
            if segment.number > after and (through is None or segment.number <= through)
        )
        self._check(found, after, through)
        last = found[-1].number if found else after
        if head is not None and head.number > last and head.number > self.trimmed:
            raise MissingSegmentError(self.name, last + 1, head.number, self._why(last + 1))
        return tuple(found)

    def is_another(self, identity: int) -> bool:
        """Return whether a lane of this identity was deleted, and this lane was made later under its name."""
        return bool(identity and self.file.identity) and identity != self.file.identity

    def all_segments(self) -> tuple[Segment, ...]:
        """Return all segments that are not trimmed, in order."""
        return self.segments(after=self.trimmed)

    @property
    def last(self) -> int:
        """The number of the last published segment. If all segments are trimmed, the number of the last trimmed segment."""
        return max([self.trimmed, *(segment.number for segment in self._published())])  # a killed trim can leave trimmed files

    @property
    def trimmed(self) -> int:
        """The number of the last trimmed segment, or 0; read from the file each time. Raises the error of `trimmed_tip`."""
        return self.trimmed_tip.number

    def pending(self) -> tuple[str, ...]:
        """Return the names of the files of segments that the lander has not published yet."""
        return tuple(file.name for file in self.folder.files() if is_pending(file.name))

    def reread(self) -> LaneFile:
        """Read `lane.json` again, and return its contents."""
        return read_file(self.folder, _LANE_FILE, LaneFile)

    @property
    def first_marker(self) -> str:
        """The identifier of the message that became the first marker of the lane; empty if none was chosen yet."""
        try:
            return self.folder.read(_FIRST_MARKER_FILE).decode()
        except FileNotFoundError:
            return ""

    def choose_first_marker(self, candidate: str) -> str:
        """Choose the first marker of the lane, durably, unless one is chosen. Return the identifier of the chosen one."""
        try:
            self.folder.create(_FIRST_MARKER_FILE, candidate.encode())
        except FileExistsError:
            return self.first_marker
        return candidate

    @property
    def trimmed_tip(self) -> Tip:
        """The last trimmed segment; without its number of rows and its checksum if an older mqflow trimmed it.

        Raises `LaneError` if the number in `lane.json` is above the head record and above every file. A trim would delete all.
        """
        said = self.reread()
        head = read_head(self.journal, folder_name(self.name))
        if said.trimmed > (0 if head is None else head.number):  # after a power cut, the record can be older than the lane
            last = max((segment.number for segment in self._published()), default=said.trimmed)
            if said.trimmed > last:
                raise LaneError(
                    f"{self.folder.uri}/{_LANE_FILE} says that segments up to {said.trimmed} were trimmed, but the last "
                    f"segment of lane {self.name} is {last}. Nothing was changed. Restore that file from a copy."
                )
        return Tip(number=said.trimmed, rows=said.trimmed_rows, crc=said.trimmed_crc)

    @property
    def tip(self) -> Tip:
        """The last published segment; if all segments are trimmed, the last trimmed segment."""
        return max((segment.tip for segment in self._published()), key=lambda tip: tip.number, default=self.trimmed_tip)

    def befores(self, segments: Sequence[Segment]) -> dict[int, Before]:
        """Return for each of these segments the segment that it must follow."""
        tips = {segment.number: segment.tip for segment in self._published()}  # read first: a trim deletes the files last
        said = self.reread()
        tips = {said.trimmed: Tip(number=said.trimmed, rows=said.trimmed_rows, crc=said.trimmed_crc)} | tips
        return {each.number: before_of(self.journal_id, tips.get(each.number - 1), said.rewrites) for each in segments}

    def link_after(self, before: Tip) -> Link:
        """Return the link of the segment that follows the segment `before`."""
        return Link(
            journal=self.journal_id, lane=self.name, number=before.number + 1, rows_before=before.rows, crc_before=before.crc
        )

    def publish(self, written: Written) -> None:
        """Publish the pending segment, then write the head record. Raises the errors of `segments.publish`."""
        publish(self.folder, written)
        write_head(self.journal, folder_name(self.name), Head(lane=self.name, **asdict(written.tip)))

    def note(self, *, claimed: bool = False, trimmed: Segment | None = None, rewrite: Rewrite | None = None) -> None:
        """Record in `lane.json`, durably: that the marker was on its queue, the last trimmed segment, or a rewrite.

        No process can undo such a record: a lower number of a trimmed segment, for example, changes nothing.
        """

        def change(now: LaneFile) -> LaneFile:
            after = replace(now, claimed=now.claimed or claimed)
            if trimmed is not None and trimmed.number > now.trimmed:
                after = replace(after, trimmed=trimmed.number, trimmed_rows=trimmed.rows, trimmed_crc=trimmed.crc)
            if rewrite is not None and rewrite not in now.rewrites:
                after = replace(after, rewrites=(*now.rewrites, rewrite))
            return after

        change_file(self.folder, _LANE_FILE, LaneFile, change)

    def remove_trimmed(self) -> None:
        """Delete the files of trimmed segments, including those that a killed trim left."""
        trimmed = self.trimmed
        for segment in sorted(self._published()):  # the last one last: without it, `trimmed` would seem too high after a kill
            if segment.number <= trimmed:
                self.folder.remove(segment.name)

    def drop_pending(self) -> None:
        """Delete the files of segments that are not published."""
        for name in self.pending():
            self.folder.remove(name)

    def _published(self) -> list[Segment]:
        found = (segment_of(self.name, self.folder, file) for file in self.folder.files())
        return [segment for segment in found if segment is not None]

    def _check(self, found: Sequence[Segment], after: int, through: int | None) -> None:
        expected = after + 1
        for segment in found:
            if segment.number != expected:
                if segment.number < expected:
                    raise LaneError(f"Lane {self.name} has segment {segment.number} twice: {segment.uri} is one of them.")
                raise MissingSegmentError(self.name, expected, segment.number - 1, self._why(expected))
            expected += 1
        if through is not None and expected <= through:
            raise MissingSegmentError(self.name, expected, through, self._why(expected))

    def _why(self, number: int) -> str:
        trimmed = self.trimmed
        if number <= trimmed:
            return f"segments up to {trimmed} were trimmed after every registered consumer had read them"
        return f"its last segment is {self.last}, and a lost file must come back from a copy"


def folder_name(lane: str) -> str:
    """Return the name of the lane's folder, and of its head record. Raises `LaneError` for a name that is not UTF-8."""
    # The name of a queue can contain a slash, and the name ".." is another folder.
    try:
        return quote(lane, safe="") if lane.strip(".") else lane.replace(".", "%2E")
    except UnicodeEncodeError:
        raise LaneError(f"{lane!r} is not UTF-8, so it cannot be the name of a lane. Nothing was changed.") from None


def read_file(folder: Folder, name: str, kind: type[R]) -> R:
    """Return the contents of a small file. Raises `ForeignJournalError` if they are not a record of this type."""
    return _decoded(folder, name, folder.read(name), kind)


def create_file(folder: Folder, name: str, record: Struct) -> None:
    """Create the file with this record, durably, unless another process has created it meanwhile."""
    with suppress(FileExistsError):
        folder.create(name, _encoded(record))


def change_file(folder: Folder, name: str, kind: type[R], change: Callable[[R], R]) -> R:
    """Change the record in a file, durably, and return the new record.

    If another process changes the file meanwhile, `change` runs again, on the record of that process.
    """
    while True:
        data, version = folder.read_version(name)
        before = _decoded(folder, name, data, kind)
        after = change(before)
        if after == before:
            return after
        with suppress(ChangedError):  # each try that fails is a change of another process that succeeded
            folder.replace(name, _encoded(after), version)
            return after


def _decoded(folder: Folder, name: str, data: bytes, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ForeignJournalError(folder.uri_of(name), str(error)) from error


def _encoded(record: Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record)) + b"\n"


def _folder_of(where: Folder | str | Path) -> Folder:
    return folder_at(where) if isinstance(where, str | Path) else where


def _opened(folder: Folder) -> Journal | None:
    try:
        found = read_file(folder, _FILE, _JournalFile)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if found.format != _FORMAT:
        raise ForeignJournalError(folder.uri, f"its {_FILE} is not a journal's")
    if found.version > JOURNAL_VERSION:
        raise JournalVersionError(folder.uri, found.version, JOURNAL_VERSION)
    return Journal(folder, found.id)


def _is_foreign(folder: Folder) -> bool:
    """Return whether the folder is a file, or contains more than the empty folders of an interrupted creation."""
    try:
        if folder.files():
            return True
    except NotADirectoryError:
        return True
    inside = [folder.folder(name) for name in folder.folders()]
    return any(each not in _parts(folder) or each.files() or each.folders() for each in inside)


def _parts(folder: Folder) -> tuple[Folder, ...]:
    return folder.folder("lanes"), folder.folder("consumers")


def _new_id(random: Random) -> str:
    return "".join(f"{int(random.random() * 2**48):012x}" for _ in range(2))
