"""Browses the markers on a state queue, and changes nothing. A marker is a message that names the last segment of a lane."""

from msgspec.structs import replace

from mqflow.journal.errors import LaneError
from mqflow.journal.journal import Lane
from mqflow.journal.segments import Written
from mqflow.landing.recovery import Marker, marker_from
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.verbs import Connection, GetOptions, Got

__all__ = ("StateQueue", "browse_marker", "check_queue_manager")

_BROWSE = GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING


class StateQueue:
    """The markers of one journal on a state queue. See `mqflow.journal.verification.Markers`."""

    def __init__(self, connection: Connection, journal: str, queue: str, *, wait_ms: int) -> None:
        self._connection = connection
        self._journal = journal
        self._queue = queue
        self._wait_ms = wait_ms

    @property
    def queue_manager(self) -> str:
        """The queue manager of the markers."""
        return self._connection.queue_manager_name

    def lanes(self) -> list[str]:
        """Return the lanes of the journal that have a marker which no unit of work holds."""
        handle = self._connection.open(self._queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
        found: list[str] = []
        while (got := self._connection.get(handle, GetOptions(options=_BROWSE | GetOption.BROWSE_NEXT))) is not None:
            marker = marker_from(got.body)
            if marker is not None and marker.journal == self._journal and not marker.is_candidate:
                found.append(marker.lane)
        self._connection.close(handle)
        return found

    def committed(self, lane: str) -> Written | None:
        """Return the last committed segment of the lane; None if no marker comes within the wait."""
        got = browse_marker(self._connection, self._journal, lane, self._queue, wait_ms=self._wait_ms)
        marker = None if got is None else marker_from(got.body)
        return None if marker is None else marker.written


def check_queue_manager(connection: Connection, lane: Lane) -> None:
    """Raise `LaneError` if the connection is to another queue manager than that of the lane, which has the marker."""
    if connection.queue_manager_name != lane.queue_manager:
        raise LaneError(
            f"Lane {lane.name} belongs to {lane.queue_manager}, and this is {connection.queue_manager_name}: its queues say "
            f"nothing about the lane. Nothing was changed. Name {lane.queue_manager} with --url."
        )


def browse_marker(connection: Connection, journal: str, lane: str, queue: str, *, wait_ms: int) -> Got | None:
    """Return the marker message of the lane, and leave it on the queue; None if no such message comes within the wait.

    Passes over candidates: no lander has landed a message with one of them.
    """
    handle = connection.open(queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    wanted = GetOptions(
        options=_BROWSE | GetOption.WAIT | GetOption.BROWSE_FIRST,
        wait_ms=wait_ms,
        match=MatchOption.CORREL_ID,
        correlation_id=Marker(journal=journal, lane=lane, epoch=0).correlation_id,
    )
    got = connection.get(handle, wanted)
    while got is not None and (marker := marker_from(got.body)) is not None and marker.is_candidate:
        got = connection.get(handle, replace(wanted, options=_BROWSE | GetOption.WAIT | GetOption.BROWSE_NEXT))
    connection.close(handle)
    return got
