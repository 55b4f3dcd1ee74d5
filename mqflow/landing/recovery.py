"""Decides what becomes of a segment that is found unpublished: the marker on the queue manager says if it was committed.

The marker is a message, put in the unit of work of the gets it stands for: it says segment n if and only if the messages of n
are off their queue. Pure: knows the marker and numbers; no queue, no file.
"""

from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

__all__ = ("STATE_QUEUE", "Marker", "Publish", "Recovery", "Refuse", "Sound", "marker_from", "recover", "room_for")

STATE_QUEUE: Final = "MQFLOW.JOURNAL.STATE"
"""Where markers are unless another queue is named."""
_BESIDE_THE_GETS: Final = 3
"""The get and the put of the marker, and a report that the last message may cause."""


class Marker(Struct, frozen=True, kw_only=True):
    """The last committed segment of a lane, and who may commit the next."""

    journal: str
    lane: str
    #: Grows by one with each lander that takes the lane over: one that finds another's number backs out and ends.
    epoch: int
    #: 0 before the first.
    segment: int = 0
    rows: int = 0
    crc: int = 0
    size_bytes: int = 0
    #: The epoch of the lander that wrote that segment: part of its pending file's name.
    owner: int = 0

    @property
    def correlation_id(self) -> bytes:
        """By which the marker of this lane of this journal is found among others."""
        return sha256(f"{self.journal}\0{self.lane}".encode()).digest()[:24]

    def to_bytes(self) -> bytes:
        """Return the message data: JSON in UTF-8."""
        return msgspec.json.encode(self)


def marker_from(data: bytes) -> Marker | None:
    """Return the marker that the message data is, or None where it is none."""
    try:
        return msgspec.json.decode(data, type=Marker)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Publish(Struct, frozen=True):
    """The messages of the segment that the marker names are off their queue: its pending file is the only place they are in."""


class Sound(Struct, frozen=True):
    """The segment that the marker names is published; whatever else is pending was backed out, or never can be committed."""


class Refuse(Struct, frozen=True):
    """Journal and marker cannot both be right; a person has to look, and nothing is touched."""

    why: str


Recovery: TypeAlias = Publish | Sound | Refuse


def recover(marker: Marker, published: int, *, pending: bool) -> Recovery:
    """Return what to do, given the last segment that was published, and whether the file is there that the marker names.

    The marker is at the last published segment, or one further: the rename follows the commit, and the next segment is begun
    after the rename. Anything else says that one of the two was put back to an earlier state, or is another's.
    """
    if marker.segment == published:
        return Sound()
    if marker.segment != published + 1:
        return Refuse(
            f"the marker says segment {marker.segment}, and the last in the journal is {published}: one of them was restored "
            "from a copy, or is another journal's"
        )
    if not pending:
        return Refuse(
            f"segment {marker.segment} with {marker.rows} rows was committed, and its pending file is gone: bring it back from "
            "a copy; its messages are nowhere else"
        )
    return Publish()


def room_for(max_uncommitted_messages: int, wished: int) -> int:
    """Return how many messages a unit of work may get, with room for the marker. 0 where there is none.

    Source: facts, section 3: MAXUMSGS counts gets and puts of a unit of work, and the reports they cause.
    """
    return max(min(wished, max_uncommitted_messages - _BESIDE_THE_GETS), 0)
