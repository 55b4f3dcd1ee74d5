"""The folder of a journal: its lanes, and the segments of each lane, in order and without gaps.

Layout: `journal.json`, `lanes/<lane>/lane.json`, `lanes/<lane>/<segment files>`, `consumers/<name>.json`. Small files are
replaced as a whole: a reader gets all of the old contents or all of the new contents. This file knows files. It writes no
segment, and knows no queue manager.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mqflow.journal.errors import ForeignJournalError, JournalVersionError, LaneError, MissingSegmentError
from mqflow.journal.schemas import Kind
from mqflow.journal.segments import Segment, segment_of, sync_folder
from mqflow.world import SYSTEM_RANDOM, Random

__all__ = ("JOURNAL_VERSION", "Journal", "Lane", "LaneFile", "read_file", "replace_file")

JOURNAL_VERSION: Final = 1
_FORMAT: Final = "mqflow-journal"

R = TypeVar("R", bound=Struct)


class _JournalFile(Struct, frozen=True, kw_only=True):
    format: str = ""
    version: int = 0
    #: The identifier of this journal, which the markers on the queue contain.
    id: str = ""


class LaneFile(Struct, frozen=True, kw_only=True):
    """The contents of `lane.json`."""

    lane: str
    kind: Kind
    queue: str
    queue_manager: str
    #: Whether the marker was ever on its queue. If it was, a marker that cannot be found is lost, not new.
    claimed: bool = False
    #: The last segment that was deleted because every consumer had read it.
    trimmed: int = 0


class Journal(Struct, frozen=True):
    """An existing journal."""

    path: Path
    id: str

    @classmethod
    def create(cls, path: Path, *, random: Random = SYSTEM_RANDOM) -> "Journal":
        """Return the journal in this folder, and create it if the folder is empty or missing.

        Raises `ForeignJournalError` if the folder holds something else, `JournalVersionError` if a newer mqflow made it.
        """
        if (path / "journal.json").exists():
            return cls.open(path)
        if path.exists() and (not path.is_dir() or any(not _is_unfinished(entry) for entry in path.iterdir())):
            if (path / "journal.json").exists():  # another process was faster
                return cls.open(path)
            raise ForeignJournalError(path, "it is a file, or a folder with something else in it")
        (path / "lanes").mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / "consumers").mkdir(mode=0o700, exist_ok=True)
        made = _JournalFile(format=_FORMAT, version=JOURNAL_VERSION, id=_new_id(random))
        _create_file(path / "journal.json", made)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> "Journal":
        """Return the journal in this folder. Raises what `create` raises, and `ForeignJournalError` if there is no journal."""
        file = path / "journal.json"
        if not file.exists():
            raise ForeignJournalError(path, f"there is no {file.name} in it")
        found = read_file(file, _JournalFile)
        if found.format != _FORMAT:
            raise ForeignJournalError(path, f"its {file.name} is not a journal's")
        if found.version > JOURNAL_VERSION:
            raise JournalVersionError(path, found.version, JOURNAL_VERSION)
        return cls(path, found.id)

    def lanes(self) -> tuple["Lane", ...]:
        """Return the lanes, by name. Raises `LaneError` for a copy of a lane's folder: the copy would repeat every row."""
        found: list[Lane] = []
        for file in (self.path / "lanes").glob("*/lane.json"):
            lane = self._lane(read_file(file, LaneFile))
            if lane.path != file.parent:
                raise LaneError(
                    f"{file.parent} says that it is lane {lane.name}, whose folder is {lane.path}: somebody copied or renamed "
                    "it. Nothing was changed. Move a copy out of the journal, or give the folder its old name again."
                )
            found.append(lane)
        return tuple(sorted(found, key=lambda lane: lane.name))

    def lane(self, name: str) -> "Lane":
        """Return the lane of that name. Raises `LaneError` if it does not exist."""
        file = self._folder(name) / "lane.json"
        if not file.exists():
            known = ", ".join(lane.name for lane in self.lanes()) or "none"
            raise LaneError(f"The journal {self.path} has no lane {name!r}. It has: {known}.")
        return self._lane(read_file(file, LaneFile))

    def add_lane(self, name: str, kind: Kind, *, queue: str, queue_manager: str) -> "Lane":
        """Return the lane, and create it if it is missing. Raises `LaneError` if it belongs to another queue or kind."""
        folder = self._folder(name)
        file = folder / "lane.json"
        if not file.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(file, LaneFile(lane=name, kind=kind, queue=queue, queue_manager=queue_manager))
            sync_folder(folder.parent)
        lane = self._lane(read_file(file, LaneFile))
        wanted, there = (kind, queue, queue_manager), (lane.kind, lane.queue, lane.queue_manager)
        if wanted != there:
            raise LaneError(
                f"Lane {name} of {self.path} holds {there[0]} of {there[1]} ({there[2]}), not {kind} of {queue} "
                f"({queue_manager}). Name another lane, or another journal."
            )
        return lane

    def _folder(self, name: str) -> Path:
        # The name of a queue can contain a slash, and the name ".." is another folder.
        return self.path / "lanes" / (quote(name, safe="") if name.strip(".") else name.replace(".", "%2E"))

    def _lane(self, said: LaneFile) -> "Lane":
        return Lane(said.lane, said.kind, said.queue, said.queue_manager, self._folder(said.lane), said)


class Lane(Struct, frozen=True):
    """A stream of immutable segments, numbered from 1."""

    name: str
    kind: Kind
    queue: str
    queue_manager: str
    path: Path
    #: The contents of `lane.json` when the lane was looked up.
    file: LaneFile

    def segments(self, after: int = 0, through: int | None = None) -> tuple[Segment, ...]:
        """Return the segments with numbers above `after`, up to `through`, in order.

        Raises `MissingSegmentError` if one of these segments was trimmed or is lost: no caller gets fewer than it asked for.
        """
        found = sorted(
            segment
            for segment in self._published()
            if segment.number > after and (through is None or segment.number <= through)
        )
        self._check(found, after, through)
        return tuple(found)

    def all_segments(self) -> tuple[Segment, ...]:
        """Return all segments that are not trimmed, in order."""
        return self.segments(after=self.trimmed)

    @property
    def last(self) -> int:
        """The number of the last published segment. If all segments are trimmed, the number of the last trimmed segment."""
        return max([self.trimmed, *(segment.number for segment in self._published())])  # a killed trim can leave trimmed files

    @property
    def trimmed(self) -> int:
        """The number of the last trimmed segment, or 0; read from the file each time."""
        return self.reread().trimmed

    def pending(self) -> tuple[Path, ...]:
        """Return the files of segments that the lander has not published yet."""
        return tuple(sorted(self.path.glob("*.pend")))

    def reread(self) -> LaneFile:
        """Read `lane.json` again, and return its contents."""
        return read_file(self.path / "lane.json", LaneFile)

    def note(self, **changes: Any) -> None:
        """Change fields of `lane.json`, durably."""
        replace_file(self.path / "lane.json", replace(self.reread(), **changes))

    def remove_trimmed(self) -> None:
        """Delete the files of trimmed segments, including those that a killed trim left."""
        trimmed = self.trimmed
        for segment in self._published():
            if segment.number <= trimmed:
                segment.path.unlink(missing_ok=True)
        sync_folder(self.path)

    def _published(self) -> list[Segment]:
        found: list[Segment] = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.endswith(".arrow"):
                    continue
                with suppress(FileNotFoundError):  # trimmed since the folder was listed
                    segment = segment_of(self.name, Path(entry.path), entry.stat().st_size)
                    found += [] if segment is None else [segment]
        return found

    def _check(self, found: Sequence[Segment], after: int, through: int | None) -> None:
        expected = after + 1
        for segment in found:
            if segment.number != expected:
                if segment.number < expected:
                    raise LaneError(f"Lane {self.name} has segment {segment.number} twice: {segment.path} is one of them.")
                raise MissingSegmentError(self.name, expected, segment.number - 1, self._why(expected))
            expected += 1
        if through is not None and expected <= through:
            raise MissingSegmentError(self.name, expected, through, self._why(expected))

    def _why(self, number: int) -> str:
        trimmed = self.trimmed
        if number <= trimmed:
            return f"segments up to {trimmed} were trimmed after every registered consumer had read them"
        return f"its last segment is {self.last}, and a lost file must come back from a copy"


def read_file(path: Path, kind: type[R]) -> R:
    """Return the contents of a small file. Raises `ForeignJournalError` if they are not a record of this type."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ForeignJournalError(path, str(error)) from error


def replace_file(path: Path, record: Struct) -> None:
    """Replace the contents of the file, durably. At any moment the file has all of the old or all of the new contents."""
    _write_beside(path, record).replace(path)
    sync_folder(path.parent)


def _create_file(path: Path, record: Struct) -> None:
    """Create the file with these contents, durably, unless another process has created it meanwhile."""
    beside = _write_beside(path, record)
    try:
        path.hardlink_to(beside)
    except FileExistsError:
        beside.unlink()
    except OSError:  # a file system without links
        beside.replace(path)
    else:
        beside.unlink()
    sync_folder(path.parent)


def _write_beside(path: Path, record: Struct) -> Path:
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return Path(file.name)


def _is_unfinished(entry: Path) -> bool:
    """Return whether the entry belongs to a journal whose creation was interrupted: such an entry is still empty."""
    if entry.name in {"lanes", "consumers"}:
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name.startswith(".journal.json.")


def _new_id(random: Random) -> str:
    return "".join(f"{int(random.random() * 2**48):012x}" for _ in range(2))
