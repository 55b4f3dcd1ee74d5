"""Finishes the last segment of a lane without a lander: publishes the segment, or drops it.

This file guesses nothing: the marker of the lane (a message) says whether the last unit of work was committed. Without the
marker, only the queue shows this, and only if no other program gets from the queue; so a person decides. The code is
synchronous. It knows the journal and the verbs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from mqflow.journal.errors import LaneError, TornSegmentError
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.rows import Position, columns
from mqflow.journal.schemas import Kind
from mqflow.journal.segments import Written, read_pending, verify
from mqflow.landing.recovery import Marker, Publish, marker_from, recover
from mqflow.landing.state_queue import browse_marker, check_queue_manager
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.verbs import Connection, GetOptions, Got
from mqflow.world import Clock

__all__ = ("Doubt", "check_committed", "find_doubt", "finish_lane", "settle_lane")

_BROWSE: Final = GetOptions(
    options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
)
_KEYS: Final = ("msg_id", "correl_id", "put_ts")
_KEYS_OF_RECORDS: Final = ("disp_id", "raw")


class Doubt(Struct, frozen=True, kw_only=True):
    """The facts about a unit of work whose marker is missing, for the decision whether it was committed."""

    #: The last published segment.
    last: int
    #: The file of the segment that was perhaps committed. Empty if this mqflow can read no pending segment: then nothing was
    #: committed, because the lander commits only after the sync of the file. An exception is a file that was damaged later.
    pending: str = ""
    written: Written | None = None
    #: The number of rows of the pending segment whose messages are on the queue. An open unit of work hides its messages.
    on_queue: int = 0

    @property
    def advice(self) -> str:
        """The advice: "publish", "drop", or "" if only some of the messages are on the queue."""
        if self.written is None or self.on_queue == self.written.rows:
            return "drop"
        return "" if self.on_queue else "publish"


def finish_lane(connection: Connection, journal: Journal, lane: Lane, state_queue: str) -> Written | None:
    """Publish the segment that the marker names as committed, and return it; None if the segment is published already.

    Does not take the lane over, and drops no segment. A lander can go on: it finds the segment published. Raises `LaneError`
    if the marker cannot be browsed, and `TornSegmentError` if the segment is damaged.
    """
    got = browse_marker(connection, journal.id, lane.name, state_queue, wait_ms=0)
    marker = None if got is None else marker_from(got.body)
    if marker is None:
        count = len(lane.pending())
        files = "1 file that is" if count == 1 else f"{count} files that are"
        raise LaneError(
            f"Lane {lane.name} has {files} not published, and no marker tells whether it was committed: its lander runs, "
            f"or the marker is lost. `mqflow journal settle {journal.folder.uri} {lane.name}` shows how to repair the lane."
        )
    folder = lane.folder
    written = marker.written
    if not isinstance(recover(marker, lane.last, pending=folder.exists(written.pending)), Publish):
        return None
    try:
        verify(folder, written)
    except TornSegmentError:
        if folder.exists(written.pending):
            raise
        return None  # the lander of the lane has published the segment meanwhile
    lane.publish(written)
    return written


def check_committed(lane: Lane, state_queue: str, uncommitted: Callable[[str], int | None]) -> str:
    """Return a warning if nobody knows whether the queue of the lane and the state queue have uncommitted messages, else "".

    `uncommitted` returns their number for a queue (UNCOM of DISPLAY QSTATUS), or None if it is not known. Raises `LaneError` if
    there are some: a unit of work, perhaps of the old lander, hides messages from `find_doubt`.
    """
    unknown: list[str] = []
    for queue in (lane.queue, state_queue):
        count = uncommitted(queue)
        if count is None:
            unknown.append(queue)
        elif count:
            things = "1 uncommitted message" if count == 1 else f"{count:,} uncommitted messages"
            raise LaneError(
                f"{queue} has {things}, and a unit of work hides the messages that it got. Nothing was changed. Stop the "
                f"lander of lane {lane.name}. Wait until the queue manager has backed out its unit of work, and repeat the "
                "command."
            )
    if not unknown:
        return ""
    commands = " and ".join(f"DISPLAY QSTATUS({queue}) UNCOM" for queue in unknown)
    return (
        f"mqflow cannot see whether an open unit of work hides messages: check that {commands} says NO, before you use "
        "--publish or --drop."
    )


def find_doubt(connection: Connection, journal: Journal, lane: Lane, state_queue: str, *, wait_ms: int) -> Doubt:
    """Return the facts for the decision whether the last unit of work of a lane was committed.

    An open unit of work of a lander must not exist: it hides its messages and the marker. `check_committed` checks this. Raises
    `LaneError` for another queue manager, or if the lane has its marker. Raises it also if more than one whole pending segment
    can follow the last published one. Raises `SchemaError` if a newer mqflow wrote a pending segment.
    """
    check_queue_manager(connection, lane)
    if (got := browse_marker(connection, journal.id, lane.name, state_queue, wait_ms=wait_ms)) is not None:
        found = marker_from(got.body)
        content = "is not a marker" if found is None else f"says segment {found.segment}"
        raise LaneError(f"Lane {lane.name} has its marker on {state_queue}, which {content}: there is nothing to settle.")
    last = lane.last
    whole = list(_whole(lane, last + 1))
    if not whole:
        return Doubt(last=last)
    if len(whole) > 1:
        names = ", ".join(name for name, _, _ in whole)
        raise LaneError(
            f"Lane {lane.name} ({lane.folder.uri}) has more than one segment that may be its {last + 1}th: {names}. Move all "
            "but one of them away, and look at each of them: two landers had these messages."
        )
    [(pending, written, table)] = whole
    keys = _KEYS_OF_RECORDS if lane.kind is Kind.DISPOSITION else _KEYS
    rows = Counter(zip(*(table[name].to_pylist() for name in keys), strict=True))
    there = Counter(_identities(lane, keys, _browsed(connection, lane.queue), table.schema))
    return Doubt(last=last, pending=pending, written=written, on_queue=(rows & there).total())


def settle_lane(
    connection: Connection, journal: Journal, lane: Lane, state_queue: str, doubt: Doubt, *, publishes: bool, clock: Clock
) -> Marker:
    """Publish the pending segment or drop it; then put and return a new marker, from which a new lander can go on.

    If an old lander of the lane still runs, it ends at its next commit, because the new marker has another epoch.
    """
    if publishes and doubt.written is not None:
        lane.publish(doubt.written)
        last = doubt.written
    else:
        there = [segment for segment in lane.all_segments() if segment.number == doubt.last]
        tip = there[0].tip if there else lane.trimmed_tip
        last = Written(doubt.last, tip.rows, tip.crc, there[0].size_bytes if there else 0)
    epoch = int(clock.wall())  # landers count epochs from 1, so no earlier marker has this number
    marker = Marker(journal=journal.id, lane=lane.name, epoch=epoch).naming(last)
    lane.choose_first_marker("settled")  # no candidate can become the first marker beside the marker below
    connection.put1(state_queue, marker.descriptor, marker.to_bytes(), PutOption.NO_SYNCPOINT | PutOption.FAIL_IF_QUIESCING)
    lane.note(claimed=True)
    lane.drop_pending()
    return marker


# `Any` below: pyarrow has no types, and is loaded only for a repair.


def _whole(lane: Lane, number: int) -> Iterator[tuple[str, Written, Any]]:
    """Yield the pending segments of that number that this mqflow can read: a file that a kill tore was never committed."""
    for name in lane.pending():
        with suppress(TornSegmentError):
            written, table = read_pending(lane.folder, name, lane.kind)
            if written.number == number:
                yield name, written, table


def _browsed(connection: Connection, queue: str) -> list[Got]:
    handle = connection.open(queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    found: list[Got] = []
    while (got := connection.get(handle, _BROWSE)) is not None:
        found.append(got)
    connection.close(handle)
    return found


def _identities(lane: Lane, keys: Sequence[str], unit: Sequence[Got], schema: Any) -> Iterable[tuple[Any, ...]]:
    """Return the key of each message, with the values that the columns of a segment have."""
    import pyarrow as pa  # noqa: PLC0415 - only a repair needs it

    position = Position(lane=lane.name, segment=0, landed_us=0, queue=lane.queue, queue_manager=lane.queue_manager)
    made = columns(lane.kind, unit, position)
    return zip(*(pa.array(made[name], schema.field(name).type).to_pylist() for name in keys), strict=True)
