"""Lands one queue in one lane of a journal: whole units of messages into segments, exactly once, even after a kill.

The marker of a lane is a message on a state queue; it names the last committed segment. The steps: get a unit under syncpoint
(or browse it, then get each message by its token); write the segment and sync it. Then exchange the marker in the same unit of
work; commit; publish. After a kill, or a commit without an answer, the marker says whether the unit was committed.
`landing.recovery` reads this from the marker. The code is synchronous, with one connection and one thread. It does not retry:
the caller retries.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.folders import check_store
from mqflow.journal.errors import JournalError, LaneError
from mqflow.journal.journal import Journal, Lane
from mqflow.journal.rows import Position, columns
from mqflow.journal.segments import Written, check_room, pending_name, verify, write_pending
from mqflow.landing.recovery import STATE_QUEUE, Marker, Publish, Refuse, Sound, marker_from, recover, room_for
from mqflow.many_verbs import inquire_queue_manager, take_unit
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import Connection, FusedConnection, GetOptions, Got, ObjectHandle
from mqflow.world import Clock

__all__ = ("Landed", "Lander", "LanderOptions")

# A landed message keeps all its properties, even if PROPCTL of the queue hides properties.
_AS_IT_IS: Final = GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_TAKE: Final = GetOptions(options=GetOption.SYNCPOINT | _AS_IT_IS)
_BROWSE_FIRST: Final = GetOptions(options=GetOption.BROWSE_FIRST | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_BROWSE_NEXT: Final = GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | _AS_IT_IS)
_BY_TOKEN: Final = GetOptions(
    options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.ACCEPT_TRUNCATED_MSG,
    match=MatchOption.MSG_TOKEN,
    buffer_bytes_max=0,  # the browse has returned the body; this get only removes the message
)
_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_STATE: Final = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
_AT_ONCE: Final = 64
_CUT_MS: Final = 500
"""The longest wait of one get, in milliseconds; between two gets the lander checks for a stop."""


class LanderOptions(Struct, frozen=True, kw_only=True):
    """The options of a lander."""

    #: The most messages in a segment; MAXUMSGS of the queue manager can lower it.
    batch: int = 2_000
    #: The most bytes of message data in a segment; the last message can exceed it.
    batch_bytes: int = 64 * 1024 * 1024
    #: Milliseconds that a segment waits for more messages after its first message.
    linger_ms: int = 200
    #: True: the lander browses and writes messages before it gets them. Then only a failure between get and commit increases
    #: BackoutCount.
    browse_first: bool = False
    state_queue: str = STATE_QUEUE
    #: Milliseconds to wait for a marker that the unit of work of another lander holds.
    claim_wait_ms: int = 5_000


class Landed(Struct, frozen=True):
    """A segment was published."""

    segment: int
    rows: int
    size_bytes: int
    #: The number of its messages, which can carry several rows each; 0 for a segment that an earlier lander left unpublished.
    messages: int = 0


class Lander:
    """Lands the messages of one queue in one lane, on one connection; each connection needs a new lander."""

    def __init__(
        self,
        connection: Connection,
        journal: Journal,
        lane: Lane,
        options: LanderOptions,
        *,
        clock: Clock,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connection: Final = connection
        self._lane: Final = lane
        self._options: Final = options
        self._clock: Final = clock
        self._stopping: Final = stopping
        self._marker = Marker(journal=journal.id, lane=lane.name, epoch=0)
        self._batch = options.batch
        self._fused = connection if isinstance(connection, FusedConnection) else None
        #: True if the queue was empty at the last get.
        self.idle: bool = False
        self._queue: ObjectHandle
        self._state: ObjectHandle

    def open(self) -> Landed | None:
        """Open the queues and take the lane over. Publish and return a committed segment that is not published yet.

        Raises `LaneError` if the marker is missing or contradicts the journal, and `TornSegmentError` if a committed segment is
        damaged. Raises `FolderError` if an object store refuses a file, and `MQIError`.
        """
        connection, options = self._connection, self._options
        check_store(self._lane.folder)
        self._batch = room_for(inquire_queue_manager(connection).max_uncommitted_messages, options.batch)
        if not self._batch:
            raise LaneError(
                f"{connection.queue_manager_name} allows no unit of work with a message and its marker: MAXUMSGS is below 4."
            )
        how = OpenOption.INPUT_SHARED | OpenOption.FAIL_IF_QUIESCING
        self._queue = connection.open(self._lane.queue, (how | OpenOption.BROWSE) if options.browse_first else how)
        self._state = self._open_state()
        self._claim()
        return self._recover()

    def land(self) -> Landed | None:
        """Land one segment and return it. Returns None if no message came within a wait.

        Raises `MQIError` if the queue manager refuses a call or is lost, and `LaneError` if another lander has taken the lane
        over. Raises `JournalFullError` if the disk is full, and `FolderError` if an object store refuses a file. After any of
        these errors, a new lander on a new connection continues correctly.
        """
        check_room(self._lane.folder)  # before the first get: a backout would increase BackoutCount
        try:
            return self._land()
        except MQIError as error:
            if error.verb != "MQCMIT":  # after a failed commit, the unit of work is perhaps committed
                self._back_out()
            if error.reason != Reason.SYNCPOINT_LIMIT_REACHED or self._batch == 1:
                raise
            self._batch = max(self._batch // 2, 1)  # other units of work count too, and no inquiry shows them
            self.idle = False
            return None

    def _land(self) -> Landed | None:
        unit = self._browse() if self._options.browse_first else self._take()
        self.idle = not unit
        if not unit:
            return None
        written = self._write(unit)
        if self._options.browse_first:
            taken = self._take_browsed(unit)
            if not taken:
                self._give_up()
                return None
            if len(taken) < len(unit):  # the missing messages expired, or another program got them
                unit, written = taken, self._write(taken)
        self._commit(written)
        self._lane.publish(written)
        return Landed(written.number, written.rows, written.size_bytes, len(unit))

    # -- taking the lane over

    def _open_state(self) -> ObjectHandle:
        name = self._options.state_queue
        try:
            return self._connection.open(name, _STATE)
        except MQIError as error:
            if error.reason != Reason.UNKNOWN_OBJECT_NAME:
                raise
            detail = f"Landing needs it for its markers: DEFINE QLOCAL('{name}') DEFPSIST(YES)"
            raise error_for(Reason.UNKNOWN_OBJECT_NAME, "MQOPEN", name, self._connection.queue_manager_name, detail) from error

    def _claim(self) -> None:
        """Replace the marker by a marker of this lander, and commit: no earlier lander can then commit a segment.

        In a new lane, first put a candidate for the first marker.
        """
        lane, wait_ms = self._lane, self._options.claim_wait_ms
        claimed = lane.reread().claimed
        known = claimed or bool(lane.first_marker)
        found = self._find_marker(wait_ms=wait_ms if known else 0, claimed=claimed)
        if found is None and not (known or lane.last or lane.pending()):
            lane.choose_first_marker(self._put_marker(self._marker, PutOption.NO_SYNCPOINT | PutOption.FAIL_IF_QUIESCING))
            found = self._find_marker(wait_ms=wait_ms, claimed=False)
        if found is None:
            self._back_out()
            raise LaneError(self._missing_marker())
        marker = replace(found, epoch=found.epoch + 1)
        self._put_marker(marker)
        self._connection.commit()
        self._marker = marker
        if not claimed:
            lane.note(claimed=True)

    def _find_marker(self, *, wait_ms: int, claimed: bool) -> Marker | None:
        """Get the marker of the lane, and with it every candidate that was not chosen: the commit removes them.

        A candidate is a marker of epoch 0. Each lander that finds no marker in a new lane puts one. A file in the lane then
        chooses one of the candidates, and nobody can choose again. So two landers that start together use the same marker.
        If a lander is killed at any point, its candidate stays. A later lander uses the chosen candidate, or chooses one.
        """
        lane, first = self._lane, None
        found: list[Marker] = []
        while (got := self._await_marker(0 if found or first else wait_ms)) is not None:
            marker, message_id = got
            if not marker.is_candidate:
                found.append(marker)
            elif message_id == (lane.first_marker if claimed else lane.choose_first_marker(message_id)):
                first = marker
        if len(found) > 1:
            self._connection.backout()
            raise LaneError(f"Lane {lane.name} has more than one marker on {self._options.state_queue}: remove the older.")
        return found[0] if found else first

    def _recover(self) -> Landed | None:
        """Publish and return the segment that the marker names as committed, if any, and drop all other pending segments."""
        marker, folder = self._marker, self._lane.folder
        written = marker.written
        found: Landed | None = None
        match recover(marker, self._lane.last, pending=folder.exists(written.pending)):
            case Sound():
                pass
            case Publish():
                verify(folder, written)
                self._lane.publish(written)
                found = Landed(written.number, written.rows, written.size_bytes)
            case Refuse(why):
                raise LaneError(f"Lane {self._lane.name} ({folder.uri}) cannot go on: {why}.")
            case never:
                assert_never(never)
        self._lane.drop_pending()
        return found

    # -- reading

    def _take(self) -> list[Got]:
        """Get the messages of a unit under syncpoint. Leave room for the marker in the unit of work."""
        unit: list[Got] = []
        size, uncommitted, until = 0, 0, 0.0
        while uncommitted < self._batch and size < self._options.batch_bytes:
            wait_ms = self._wait_ms(unit, until)
            more = self._get_some(self._at_once(len(unit), size, uncommitted), wait_ms)
            if not more:
                if not unit or not wait_ms:
                    break
                continue
            if not unit:
                until = self._clock.monotonic() + self._options.linger_ms / 1_000
            unit += more
            size += sum(len(got.body) for got in more)
            uncommitted += sum(map(_counted, more))
        return unit

    def _at_once(self, count: int, size: int, uncommitted: int) -> int:
        """Return how many messages to get in one call, so that the unit exceeds its limits only a little."""
        if not count:
            return 1
        by_size = (self._options.batch_bytes - size) * count // max(size, 1)
        return max(min((self._batch - uncommitted) // 2, by_size, _AT_ONCE), 1)

    def _get_some(self, most: int, wait_ms: int) -> Sequence[Got]:
        """Get up to `most` messages; wait up to `wait_ms` for the first message."""
        if self._fused is not None:
            answer = self._fused.exchange(self._queue, _with_wait(_TAKE, wait_ms), commit=None, most=most)
            if answer.get_error is not None:
                raise answer.get_error
            return answer.unit
        first = self._get(_TAKE, wait_ms)
        return () if first is None else take_unit(self._connection, self._queue, [first], _TAKE, most)

    def _browse(self) -> list[Got]:
        """Browse as many messages as one unit of work can have, from the head of the queue. Removes none."""
        first = self._get(_BROWSE_FIRST, self._wait_ms((), 0.0))
        if first is None:
            return []
        unit, size, uncommitted = [first], len(first.body), _counted(first)
        until = self._clock.monotonic() + self._options.linger_ms / 1_000
        while uncommitted < self._batch and size < self._options.batch_bytes:
            wait_ms = self._wait_ms(unit, until)
            got = self._get(_BROWSE_NEXT, wait_ms)
            if got is not None:
                unit.append(got)
                size += len(got.body)
                uncommitted += _counted(got)
            elif not wait_ms:
                break
        return unit

    def _wait_ms(self, unit: Sequence[Got], until: float) -> int:
        if self._stopping():
            return 0
        return min(max(round((until - self._clock.monotonic()) * 1_000), 0), _CUT_MS) if unit else _CUT_MS

    def _get(self, options: GetOptions, wait_ms: int) -> Got | None:
        got = self._connection.get(self._queue, options)
        if got is None and wait_ms:
            return self._connection.get(self._queue, _with_wait(options, wait_ms))
        return got

    def _take_browsed(self, unit: Sequence[Got]) -> list[Got]:
        """Get each browsed message by its token; return the messages that were still there."""
        try:
            get, handle = self._connection.get, self._queue
            return [got for got in unit if get(handle, replace(_BY_TOKEN, message_token=got.message_token)) is not None]
        except MQIError:
            self._give_up()
            raise

    # -- writing

    def _write(self, unit: Sequence[Got]) -> Written:
        lane = self._lane
        position = Position(
            lane=lane.name,
            segment=self._marker.segment + 1,
            landed_us=round(self._clock.wall() * 1_000_000),
            queue=lane.queue,
            queue_manager=self._connection.queue_manager_name,
        )
        made = columns(lane.kind, unit, position)
        try:
            return write_pending(lane.folder, lane.link_after(self._marker.tip), lane.kind, made, owner=self._marker.epoch)
        except (OSError, JournalError):
            self._give_up()
            raise

    def _commit(self, written: Written) -> None:
        """Replace the marker and commit. After a failure before the commit, back out; leave a commit in doubt as it is."""
        marker = self._marker.naming(written)
        try:
            held = self._held_marker()
            if held != self._marker:
                self._give_up()
                raise LaneError(self._taken_over(held))
            self._put_marker(marker)
            self._connection.commit()
        except MQIError as error:
            if error.verb != "MQCMIT" or error.reason == Reason.BACKED_OUT:
                self._give_up()
            raise
        self._marker = marker

    def _held_marker(self) -> Marker | None:
        """Get the marker of the lane. Also gets each candidate before it: a lander that started too late has put it."""
        while (got := self._get_marker()) is not None and got[0].is_candidate:
            pass
        return None if got is None else got[0]

    def _await_marker(self, wait_ms: int) -> tuple[Marker, str] | None:
        return self._get_marker() or (self._get_marker(wait_ms) if wait_ms else None)

    def _get_marker(self, wait_ms: int = 0) -> tuple[Marker, str] | None:
        """Get a marker of the lane, or a candidate; return it with its MsgId in hexadecimal digits."""
        how = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | (GetOption.WAIT if wait_ms else GetOption.NONE)
        wanted = GetOptions(
            options=how, wait_ms=wait_ms, match=MatchOption.CORREL_ID, correlation_id=self._marker.correlation_id
        )
        got = self._connection.get(self._state, wanted)
        if got is None:
            return None
        found = marker_from(got.body)
        if found is None:
            self._back_out()
            raise LaneError(
                f"The marker of lane {self._lane.name} on {self._options.state_queue} is not a marker: {got.body[:80]!r}. "
                "Another program has changed it; nothing was landed."
            )
        return found, got.descriptor.message_id.hex()

    def _put_marker(self, marker: Marker, how: PutOption = _PUT) -> str:
        return self._connection.put(self._state, marker.descriptor, marker.to_bytes(), how).descriptor.message_id.hex()

    # -- backing out

    def _give_up(self) -> None:
        """Back out. Drop the pending segment if its messages are certainly on their queue again."""
        if self._back_out():
            with suppress(OSError):  # the next lander drops it
                self._lane.folder.remove(pending_name(self._marker.segment + 1, self._marker.epoch))

    def _back_out(self) -> bool:
        with suppress(MQIError):  # the connection is lost: the queue manager backs out by itself, and the marker shows that
            self._connection.backout()
            return True
        return False

    def _taken_over(self, held: Marker | None) -> str:
        found = "its marker is gone" if held is None else f"its marker is of epoch {held.epoch}, segment {held.segment}"
        return (
            f"Another lander has taken lane {self._lane.name} over: {found}, and this one is of epoch {self._marker.epoch}, "
            f"segment {self._marker.segment}. This one's unit of work is backed out; a lane has one lander at a time."
        )

    def _missing_marker(self) -> str:
        return (
            f"The marker of lane {self._lane.name} is not on {self._options.state_queue} "
            f"({self._connection.queue_manager_name}): the unit of work of another lander holds it, or a program got it. Stop "
            "the other lander, wait until the queue manager has backed out its unit of work (minutes after a lost network), "
            "and land again. If the marker does not come back, `mqflow journal settle "
            f"{self._lane.journal.uri} {self._lane.name}` shows how to repair the lane."
        )


def _counted(got: Got) -> int:
    """Return how many messages a get adds to its unit of work: 2 if the get also puts a report on delivery."""
    return 2 if got.descriptor.report & Report.COD_MASK else 1


def _with_wait(options: GetOptions, wait_ms: int) -> GetOptions:
    return replace(options, options=options.options | GetOption.WAIT, wait_ms=wait_ms) if wait_ms else options
