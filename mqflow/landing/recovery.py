"""Decides about a segment that is found unpublished: the marker on the queue manager says if it was committed.

The marker is a message, put in the unit of work of the gets that it stands for: it says segment n if and only if the messages
of segment n are off their queue. Pure: knows the marker and numbers; knows no queue and no file.
"""

from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

__all__ = ("STATE_QUEUE", "Marker", "Publish", "Recovery", "Refuse", "Sound", "marker_from", "recover", "room_for")

STATE_QUEUE: Final = "MQFLOW.JOURNAL.STATE"
"""The default queue of the markers."""
_BESIDE_THE_GETS: Final = 3
"""The get and the put of the marker, and a report that the last message can cause."""


class Marker(Struct, frozen=True, kw_only=True):
    """The last committed segment of a lane, and the lander that may commit the next one."""

    journal: str
    lane: str
    #: Grows by one with each lander that takes the lane over. A lander that finds another epoch backs out and ends.
    epoch: int
    #: 0 before the first segment.
    segment: int = 0
    rows: int = 0
    crc: int = 0
    size_bytes: int = 0
    #: The epoch of the lander that wrote that segment: part of its pending file's name.
    owner: int = 0

    @property
    def correlation_id(self) -> bytes:
        """The CorrelId that finds the marker of this lane of this journal among others."""
        return sha256(f"{self.journal}\0{self.lane}".encode()).digest()[:24]

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
    """The messages of the marked segment are off their queue: only its pending file has them, so publish it."""


class Sound(Struct, frozen=True):
    """The marked segment is published; every other pending segment was backed out, or can never be committed."""


class Refuse(Struct, frozen=True):
    """Journal and marker contradict each other: a person must look, and nothing is changed."""

    why: str


Recovery: TypeAlias = Publish | Sound | Refuse


def recover(marker: Marker, published: int, *, pending: bool) -> Recovery:
    """Return the recovery, given the last published segment, and whether the pending file of the marked segment exists.

    The marker names the last published segment, or the one after it: the rename follows the commit, and the next segment begins
    after the rename. Otherwise the journal or the marker was restored from a copy, or belongs to another journal.
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
    """Return how many messages a unit of work can get beside the marker; 0 if there is no room.

    Source: facts, section 3: MAXUMSGS counts gets and puts of a unit of work, and the reports they cause.
    """
    return max(min(wished, max_uncommitted_messages - _BESIDE_THE_GETS), 0)
