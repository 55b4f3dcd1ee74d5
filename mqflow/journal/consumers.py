"""The consumers of a journal, and the trim, which deletes the segments that all consumers have read.

Each consumer has one file. A trim keeps the segments after the offset of each registered consumer, in every lane that the
consumer reads. A consumer reads all lanes, the lanes of one kind, or the lanes that it has named. A trim deletes no segment
because of its age, and none from a lane without a consumer. This file knows files only.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.folders import Folder
from mqflow.journal.errors import ConsumerError
from mqflow.journal.journal import Journal, Lane, change_file, create_file, read_file
from mqflow.journal.schemas import Kind
from mqflow.journal.segments import Segment

__all__ = ("Consumer", "Consumers", "Trimmed")

_END: Final = ".json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Consumer(Struct, frozen=True, kw_only=True):
    """The contents of `consumers/<name>.json`."""

    consumer: str
    #: By lane, the last segment that the consumer no longer needs. The consumer has not read a lane that is missing here.
    offsets: dict[str, int]
    #: The kind that the consumer reads; None means every kind, and is also the value in a file of an older mqflow.
    kind: Kind | None = None
    #: The lanes of that kind that the consumer reads; empty for all lanes of that kind.
    lanes: tuple[str, ...] = ()

    def reads(self, lane: Lane) -> bool:
        """Return whether the consumer reads that lane, so that a trim must keep the unread segments."""
        if self.kind is None or lane.name in self.offsets:
            return True
        return lane.kind is self.kind and (not self.lanes or lane.name in self.lanes)


class Trimmed(Struct, frozen=True):
    """The segments of a lane that a trim deleted, or that a dry run reports."""

    lane: str
    segments: tuple[Segment, ...]
    #: The consumer that still needs the next segment; empty if no consumer reads the lane.
    held_by: str
    #: Consumers with an offset above the last segment of the lane. The trim ignores this offset: these consumers have read an
    #: earlier lane of this name, or segments are lost.
    beyond: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason why the trim deleted no more segments, as text."""
        slowest = f"{self.held_by} is the slowest" if self.held_by else "no consumer reads it"
        if not self.beyond:
            return slowest
        have = "has an offset" if len(self.beyond) == 1 else "have offsets"
        return f"{slowest}; {', '.join(self.beyond)} {have} above the last segment, which the trim ignores"


class Consumers(Struct, frozen=True):
    """The registered consumers of a journal."""

    journal: Journal

    def register(self, name: str) -> Consumer:
        """Return the consumer, and create it if it is missing. From now on, a trim keeps the consumer's unread segments."""
        known = self.find(name)
        if known is not None:
            return known
        create_file(self._folder, _file(name), Consumer(consumer=name, offsets={}))
        return read_file(self._folder, _file(name), Consumer)

    def commit(self, name: str, offsets: Mapping[str, int], *, kind: Kind | None = None, lanes: Sequence[str] = ()) -> Consumer:
        """Record that the consumer no longer needs the segments up to these offsets. An offset cannot go back.

        With `kind`, the consumer reads only lanes of that kind; with `lanes`, only these lanes. Raises `ConsumerError` if the
        consumer already reads another kind.
        """
        self.register(name)
        for lane, number in offsets.items():
            last = self.journal.lane(lane).last
            if number > last:
                raise ConsumerError(f"Consumer {name} cannot be at segment {number} of lane {lane}, whose last is {last}.")

        def commit(before: Consumer) -> Consumer:
            _check_forward(before, offsets)
            return replace(_with_lanes(before, kind, lanes), offsets={**before.offsets, **offsets})

        return change_file(self._folder, _file(name), Consumer, commit)

    def forget(self, name: str) -> None:
        """Remove the consumer. A trim then keeps no segments for this consumer."""
        self._folder.remove(_file(name))

    def add_lane(self, name: str, kind: Kind, *, queue: str, queue_manager: str) -> Lane:
        """Return the lane, and create it if it is missing, as `Journal.add_lane` does.

        A new lane begins at segment 1. So an offset that a consumer has in a removed lane of that name becomes 0.
        """
        if self.journal.is_new(name):
            self._begin(name)  # first: nobody can commit an offset in a lane that does not exist
        return self.journal.add_lane(name, kind, queue=queue, queue_manager=queue_manager)

    def _begin(self, lane: str) -> None:
        def begin(before: Consumer) -> Consumer:
            return replace(before, offsets={**before.offsets, lane: 0}) if lane in before.offsets else before

        for consumer in self.all():
            change_file(self._folder, _file(consumer.consumer), Consumer, begin)

    def find(self, name: str) -> Consumer | None:
        """Return the consumer, or None if it is not registered."""
        try:
            return read_file(self._folder, _file(name), Consumer)
        except FileNotFoundError:
            return None

    def all(self) -> tuple[Consumer, ...]:
        """Return every registered consumer, by name."""
        names = [file.name.removesuffix(_END) for file in self._folder.files() if file.name.endswith(_END)]
        return tuple(found for name in names if (found := self.find(name)) is not None)

    def trim(self, *, dry_run: bool = False) -> tuple[Trimmed, ...]:
        """Delete the segments that every registered consumer has read; return the deleted segments by lane.

        With `dry_run`, deletes nothing, and returns the segments that a call without `dry_run` deletes. Raises `ConsumerError`,
        and deletes nothing, if no consumer is registered.
        """
        readers = self.all()
        if not readers:
            raise ConsumerError(
                f"The journal {self.journal.folder.uri} has no registered consumer, so no segment counts as read, and nothing "
                "was deleted. A consumer registers when it reads under a name."
            )
        done: list[Trimmed] = []
        for lane in self.journal.lanes():
            offsets = {reader.consumer: reader.offsets.get(lane.name, 0) for reader in readers if reader.reads(lane)}
            last = lane.last
            beyond = tuple(name for name, offset in offsets.items() if offset > last)
            offsets |= dict.fromkeys(beyond, 0)
            slowest = min(offsets, key=offsets.__getitem__, default="")
            through = offsets.get(slowest, 0)
            doomed = tuple(segment for segment in lane.all_segments() if segment.number <= through)
            if doomed and not dry_run:
                # Mark the segments first: a kill in between leaves files that are marked as trimmed.
                lane.note(trimmed=doomed[-1])
            if not dry_run:
                lane.remove_trimmed()
            done.append(Trimmed(lane.name, doomed, slowest, beyond))
        return tuple(done)

    @property
    def _folder(self) -> Folder:
        return self.journal.folder.folder("consumers")


def _file(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConsumerError(
            f"{name!r} is not a valid name of a consumer. Use letters, digits, dots, dashes and underscores, 100 at most."
        )
    return f"{name}{_END}"


def _check_forward(before: Consumer, offsets: Mapping[str, int]) -> None:
    for lane, number in offsets.items():
        if number < before.offsets.get(lane, 0):
            raise ConsumerError(
                f"Consumer {before.consumer} is at segment {before.offsets[lane]} of lane {lane} and cannot go back to "
                f"{number}: the segments between can be trimmed. Read them again under the name of another consumer."
            )


def _with_lanes(before: Consumer, kind: Kind | None, lanes: Sequence[str]) -> Consumer:
    if kind is None:
        return before
    if before.kind is None:
        return replace(before, kind=kind, lanes=tuple(sorted(lanes)))
    if before.kind is not kind:
        raise ConsumerError(
            f"Consumer {before.consumer} reads {before.kind}, and now asks for {kind}: a trim deletes segments that one of the "
            "readers still needs. Give each reader a name of its own."
        )
    both = {*before.lanes, *lanes} if before.lanes and lanes else ()
    return replace(before, lanes=tuple(sorted(both)))
