"""Who reads a journal, and how far each has come: one file for each, and what may be deleted because all have read it.

A consumer that is registered keeps segments alive from its offset on, in the lanes that it reads: those of its kind, where it
says one. Age alone deletes nothing, and nothing is deleted of a lane that nobody reads. Knows files only.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.journal.errors import ConsumerError
from mqflow.journal.journal import Journal, Lane, read_file, replace_file
from mqflow.journal.schemas import Kind
from mqflow.journal.segments import Segment, sync_folder

__all__ = ("Consumer", "Consumers", "Trimmed")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Consumer(Struct, frozen=True, kw_only=True):
    """What `consumers/<name>.json` says."""

    consumer: str
    #: By lane, the last segment that it needs no more; a lane that is not named was not read yet.
    offsets: dict[str, int]
    #: What it reads; None for everything, which is also what a consumer says that was registered by an older mqflow.
    kind: Kind | None = None
    #: Of that kind, only these lanes; none for all of them.
    lanes: tuple[str, ...] = ()

    def reads(self, lane: Lane) -> bool:
        """Return whether what is in that lane must wait for it."""
        if self.kind is None or lane.name in self.offsets:
            return True
        return lane.kind is self.kind and (not self.lanes or lane.name in self.lanes)


class Trimmed(Struct, frozen=True):
    """What a trim deleted, or would."""

    lane: str
    segments: tuple[Segment, ...]
    #: Who still needs the next one; empty where nobody reads the lane.
    held_by: str

    @property
    def why(self) -> str:
        """Why not more, in words."""
        return f"{self.held_by} is the slowest" if self.held_by else "nobody reads it"


class Consumers(Struct, frozen=True):
    """The registered consumers of a journal."""

    journal: Journal

    def register(self, name: str) -> Consumer:
        """Return the consumer, made where there was none: from now on nothing is trimmed that it has not read."""
        known = self.find(name)
        if known is not None:
            return known
        return self._write(Consumer(consumer=name, offsets={}))

    def commit(self, name: str, offsets: Mapping[str, int], *, kind: Kind | None = None, lanes: Sequence[str] = ()) -> Consumer:
        """Note that the consumer needs nothing up to these segments any more; going back is refused, the same again is not.

        With a `kind`, that it reads lanes of that kind only, or of those only `lanes`; another kind than before is refused.
        """
        before = self.register(name)
        for lane, number in offsets.items():
            if number < before.offsets.get(lane, 0):
                raise ConsumerError(
                    f"Consumer {name} is at segment {before.offsets[lane]} of lane {lane} and cannot go back to {number}: what "
                    "lies between may be trimmed. Read it again under another consumer's name."
                )
            last = self.journal.lane(lane).last
            if number > last:
                raise ConsumerError(f"Consumer {name} cannot be at segment {number} of lane {lane}, whose last is {last}.")
        now = replace(_with_lanes(before, kind, lanes), offsets={**before.offsets, **offsets})
        return now if now == before else self._write(now)

    def forget(self, name: str) -> None:
        """Let the consumer keep nothing alive any more."""
        self._path(name).unlink(missing_ok=True)
        sync_folder(self.journal.path / "consumers")

    def find(self, name: str) -> Consumer | None:
        """Return the consumer, or None where it is not registered."""
        path = self._path(name)
        return read_file(path, Consumer) if path.exists() else None

    def all(self) -> tuple[Consumer, ...]:
        """Return every registered consumer, by name."""
        return tuple(read_file(path, Consumer) for path in sorted((self.journal.path / "consumers").glob("*.json")))

    def trim(self, *, dry_run: bool = False) -> tuple[Trimmed, ...]:
        """Delete what every registered consumer has read; return it by lane. Without a consumer nothing is deleted.

        Raises `ConsumerError` where none is registered.
        """
        readers = self.all()
        if not readers:
            raise ConsumerError(
                f"The journal {self.journal.path} has no registered consumer, so nothing is known to be read, and nothing was "
                "deleted. A consumer registers when it reads under a name."
            )
        done: list[Trimmed] = []
        for lane in self.journal.lanes():
            offsets = {reader.consumer: reader.offsets.get(lane.name, 0) for reader in readers if reader.reads(lane)}
            slowest = min(offsets, key=offsets.__getitem__, default="")
            through = offsets.get(slowest, 0)
            doomed = tuple(segment for segment in lane.all_segments() if segment.number <= through)
            if doomed and not dry_run:
                lane.note(trimmed=doomed[-1].number)  # said first: a kill in between leaves files, never a lie
            if not dry_run:
                lane.remove_trimmed()
            done.append(Trimmed(lane.name, doomed, slowest))
        return tuple(done)

    def _write(self, said: Consumer) -> Consumer:
        replace_file(self._path(said.consumer), said)
        return said

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ConsumerError(
                f"{name!r} is no name of a consumer: letters, digits, dots, dashes and underscores, 100 at most."
            )
        return self.journal.path / "consumers" / f"{name}.json"


def _with_lanes(before: Consumer, kind: Kind | None, lanes: Sequence[str]) -> Consumer:
    """Return the consumer with what it reads; of what it said before nothing is let go."""
    if kind is None:
        return before
    if before.kind is None:
        return replace(before, kind=kind, lanes=tuple(sorted(lanes)))
    if before.kind is not kind:
        raise ConsumerError(
            f"Consumer {before.consumer} reads {before.kind}, and is asked to read {kind}: what the one has not read would be "
            "trimmed when the other has. Read each under a name of its own."
        )
    both = {*before.lanes, *lanes} if before.lanes and lanes else ()
    return replace(before, lanes=tuple(sorted(both)))
