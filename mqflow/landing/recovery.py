"""Decides whether a segment that is not published was committed, by the marker on the queue manager.

The marker is a message. A lander puts it in the unit of work that gets a segment's messages. So the marker names segment n if
and only if the messages of segment n are off their queue. Pure: this file knows the marker and numbers, no queue and no file.
"""

from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from mqflow.journal.segment_chain import Tip
from mqflow.journal.segments import Written
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Format, Persistence

__all__ = ("STATE_QUEUE", "Marker", "Publish", "Recovery", "Refuse", "Sound", "marker_from", "recover", "room_for")

STATE_QUEUE: Final = "MQFLOW.JOURNAL.STATE"
"""The default queue of the markers."""
_BESIDE_THE_GETS: Final = 3
"""The messages of a unit of work besides those of the queue: the get and the put of the marker, and a report."""


class Marker(Struct, frozen=True, kw_only=True):
    """The last committed segment of a lane, and the lander that may commit the next one."""

    journal: str
    lane: str
    #: Each lander that takes the lane over adds 1. A lander that finds another epoch backs out and ends. 0 in a candidate.
    epoch: int
    #: The number of the last committed segment; 0 before the first segment.
    segment: int = 0
    rows: int = 0
    crc: int = 0
    size_bytes: int = 0
    #: The epoch of the lander that wrote that segment; the name of the pending file contains it.
    owner: int = 0

    @property
    def is_candidate(self) -> bool:
        """True if no lander has used this marker yet: it can become the first marker of a new lane."""
        return not self.epoch

    @property
    def tip(self) -> Tip:
        """The last committed segment."""
        return Tip(number=self.segment, rows=self.rows, crc=self.crc)

    @property
    def written(self) -> Written:
        """The last committed segment, with the size and the name of its pending file."""
        return Written(self.segment, self.rows, self.crc, self.size_bytes, self.owner)

    @property
    def correlation_id(self) -> bytes:
        """The CorrelId of the marker, which differs for each lane and journal."""
        return sha256(f"{self.journal}\0{self.lane}".encode()).digest()[:24]

    @property
    def descriptor(self) -> MessageDescriptor:
        """The descriptor of the message."""
        return MessageDescriptor(
            format=Format.STRING, ccsid=1208, correlation_id=self.correlation_id, persistence=Persistence.PERSISTENT
        )

    def naming(self, written: Written) -> "Marker":
        """Return the marker of the same lander that names this segment as the last committed one."""
        said = asdict(written)
        return replace(self, segment=said.pop("number"), **said)

    def to_bytes(self) -> bytes:
        """Return the message data: JSON in UTF-8."""
        return msgspec.json.encode(self)


def marker_from(data: bytes) -> Marker | None:
    """Return the marker in the message data, or None if the data is not a marker."""
    try:
        return msgspec.json.decode(data, type=Marker)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Publish(Struct, frozen=True):
    """The messages of the marked segment are off their queue. Only its pending file has them, so publish this file."""


class Sound(Struct, frozen=True):
    """The marked segment is published; every other pending segment was backed out, or can never be committed."""


class Refuse(Struct, frozen=True):
    """Journal and marker contradict each other: a person must decide, and nothing is changed."""

    why: str


Recovery: TypeAlias = Publish | Sound | Refuse


def recover(marker: Marker, published: int, *, pending: bool) -> Recovery:
    """Return the recovery, given the last published segment, and whether the pending file of the marked segment exists.

    Normally the marker names the last published segment or the next one: the rename follows the commit, and the next segment
    begins after the rename. Otherwise the journal or the marker was restored from a copy, or belongs to another journal.
    """
    if marker.segment == published:
        return Sound()
    if marker.segment != published + 1:
        return Refuse(
            f"the marker says segment {marker.segment}, and the last in the journal is {published}: one of them was restored "
            "from a copy, or is another journal's. Restore the other one from a copy of the same time. Or land into a new lane "
            "(--lane): messages that are both on the queue and in the journal are then landed twice"
        )
    if not pending:
        return Refuse(
            f"segment {marker.segment} with {marker.rows} rows was committed, and its pending file is gone: bring it back from "
            "a copy; no other file has its messages"
        )
    return Publish()


def room_for(max_uncommitted_messages: int, wished: int) -> int:
    """Return how many messages a unit of work can get in addition to the marker; 0 if it has no room for messages.

    MAXUMSGS counts the gets and the puts of a unit of work, and the reports that they cause. Source: rc2024.
    """
    return max(min(wished, max_uncommitted_messages - _BESIDE_THE_GETS), 0)
