"""Who reads a journal, and how far each has come: one file for each, and what may be deleted because all have read it.

A consumer that is registered keeps segments alive from its offset on; age alone deletes nothing. Knows files only.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.journal.errors import ConsumerError
from mqflow.journal.journal import Journal, read_file, replace_file
from mqflow.journal.segments import Segment, sync_folder

__all__ = ("Consumer", "Consumers", "Trimmed")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Consumer(Struct, frozen=True, kw_only=True):
    """What `consumers/<name>.json` says."""

    consumer: str
    #: By lane, the last segment that it needs no more; a lane that is not named was not read yet.
    offsets: dict[str, int]


class Trimmed(Struct, frozen=True):
    """What a trim deleted, or would."""

    lane: str
    segments: tuple[Segment, ...]
    #: Who still needs the next one.
    held_by: str


class Consumers(Struct, frozen=True):
    """The registered consumers of a journal."""

    journal: Journal

    def register(self, name: str) -> Consumer:
        """Return the consumer, made where there was none: from now on nothing is trimmed that it has not read."""
        known = self.find(name)
        if known is not None:
            return known
        return self._write(Consumer(consumer=name, offsets={}))

    def commit(self, name: str, offsets: Mapping[str, int]) -> Consumer:
        """Note that the consumer needs nothing up to these segments any more; going back is refused, the same again is not."""
        before = self.register(name).offsets
        for lane, number in offsets.items():
            if number < before.get(lane, 0):
                raise ConsumerError(
                    f"Consumer {name} is at segment {before[lane]} of lane {lane} and cannot go back to {number}: what lies "
                    "between may be trimmed. Read it again under another consumer's name."
                )
            last = self.journal.lane(lane).last
            if number > last:
                raise ConsumerError(f"Consumer {name} cannot be at segment {number} of lane {lane}, whose last is {last}.")
        if all(before.get(lane) == number for lane, number in offsets.items()):
            return Consumer(consumer=name, offsets=before)
        return self._write(Consumer(consumer=name, offsets={**before, **offsets}))

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
            slowest = min(readers, key=lambda reader: reader.offsets.get(lane.name, 0))
            through = slowest.offsets.get(lane.name, 0)
            doomed = tuple(segment for segment in lane.all_segments() if segment.number <= through)
            if doomed and not dry_run:
                lane.note(trimmed=doomed[-1].number)  # said first: a kill in between leaves files, never a lie
            if not dry_run:
                lane.remove_trimmed()
            done.append(Trimmed(lane.name, doomed, slowest.consumer))
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
