"""Drains a queue for an engine that replays batches: it browses and keeps messages, and removes only committed batches.

The drain browses a batch into a segment of its own journal (the manifest), with the token of every message beside it. Only then
does the engine get the number of the batch. Replays read the segment. After the commit, the drain removes the messages of the
batch from the queue. So a message is on the queue or in a committed batch, and its BackoutCount does not change. The drain
needs exclusive use of the queue. It knows the seam and the journal, but no Spark.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from mqflow.folders import Folder
from mqflow.journal import Consumers, Journal, Kind, Lane
from mqflow.journal.rows import Position, columns
from mqflow.journal.segments import publish, write_durably, write_pending
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption
from mqflow.pipeline.errors import PipelineError
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle

__all__ = ("Drain", "browse_unit", "drain_lane")

_LOOK: Final = GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
_NEXT: Final = GetOption.BROWSE_NEXT | _LOOK
_FIRST: Final = GetOption.BROWSE_FIRST | _LOOK
_TAKE: Final = GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.ACCEPT_TRUNCATED_MSG
_CONSUMER: Final = "drain"
_TOKENS: Final = ".tokens"
_UNIT_ROWS: Final = 1_000
_UNIT_BYTES: Final = 64 * 1024 * 1024


class _Entry(Struct, frozen=True, array_like=True):
    """The identity of a message: its token until the queue manager ends, then the other fields, if they are unique."""

    token: bytes
    message_id: bytes
    correlation_id: bytes
    put_date: str
    put_time: str


class Drain:
    """Drains one queue into one lane, on one connection."""

    def __init__(self, connection: Connection, lane: Lane, *, clock_us: Callable[[], int]) -> None:
        options = OpenOption.INPUT_EXCLUSIVE | OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING
        self._connection = connection
        self._lane = lane
        self._clock_us = clock_us
        self._handle = connection.open(lane.queue, options)
        #: How many messages the last `take` browsed: fewer than rows if a message carries several records.
        self.browsed = 0
        #: Segments browsed on this connection. Their tokens are valid: a restart of the queue manager ends the connection too.
        self._own: set[int] = set()

    def take(self, after: int, rows_max: int) -> int:
        """Browse the queue into the segment after `after`; return its number, or `after` if the queue is empty.

        If that segment exists already (from a run that was killed), `take` returns its number without a browse.
        """
        self.browsed = 0
        if self._lane.last > after:
            return after + 1
        unit = browse_unit(self._connection, self._reopen(), rows_max)
        self.browsed = len(unit)
        if not unit:
            return after
        number = after + 1
        position = Position(
            lane=self._lane.name,
            segment=number,
            landed_us=self._clock_us(),
            queue=self._lane.queue,
            queue_manager=self._lane.queue_manager,
        )
        folder = self._lane.folder
        written = write_pending(folder, number, self._lane.kind, columns(self._lane.kind, unit, position))
        write_durably(folder, f"{number:012d}{_TOKENS}", msgspec.msgpack.encode([_entry(got) for got in unit]))
        publish(folder, written)
        self._own.add(number)
        return number

    def acknowledge(self, through: int) -> int:
        """Remove the messages of the segments up to `through` from the queue; return how many. The call can be repeated.

        It ignores a message that is gone already (expired, or removed before a kill). Raises `PipelineError` if a token is no
        longer valid after a restart of the queue manager, and several messages match the other fields.
        """
        removed = 0
        folder = self._lane.folder
        for name in [file.name for file in folder.files() if file.name.endswith(_TOKENS)]:
            number = int(name.removesuffix(_TOKENS))
            if number > through:
                continue
            entries = msgspec.msgpack.decode(folder.read(name), type=list[_Entry])
            removed += self._remove(entries, tokens_live=number in self._own)
            folder.remove(name)
            self._own.discard(number)
        if through > self._lane.trimmed:
            consumers = Consumers(Journal.open(self._lane.journal))
            consumers.commit(_CONSUMER, {self._lane.name: through})
            consumers.trim()
        return removed

    def _remove(self, entries: Sequence[_Entry], *, tokens_live: bool) -> int:
        tokens = {entry.token for entry in entries}
        removed = 0
        for at in range(0, len(entries), _UNIT_ROWS):
            try:
                for entry in entries[at : at + _UNIT_ROWS]:
                    removed += self._remove_one(entry, tokens, token_lives=tokens_live)
                self._connection.commit()
            except BaseException:
                self._backout()
                raise
        return removed

    def _remove_one(self, entry: _Entry, tokens: set[bytes], *, token_lives: bool) -> bool:
        got = self._get(GetOptions(options=_TAKE, match=MatchOption.MSG_TOKEN, message_token=entry.token, buffer_bytes_max=0))
        if got is not None and got.descriptor.message_id == entry.message_id:
            return True
        if got is not None:
            raise PipelineError(
                f"The token of a message on {self._lane.queue} now belongs to another message. Nothing was removed."
            )
        if token_lives:
            return False  # the message is gone: a message with the same fields is a different message, which was not drained
        alike = [found for found in self._candidates(entry) if found.message_token not in tokens]
        if len(alike) > 1:
            raise PipelineError(
                f"{len(alike)} messages on {self._lane.queue} have MsgId {entry.message_id.hex()} and were put at the same "
                "time, and the drained one is unknown since the restart of the queue manager. Remove it by hand."
            )
        if not alike:
            return False
        again = GetOptions(options=_TAKE, match=MatchOption.MSG_TOKEN, message_token=alike[0].message_token, buffer_bytes_max=0)
        return self._get(again) is not None

    def _candidates(self, entry: _Entry) -> list[Got]:
        """Return the messages that match the entry: same identifiers, put at the same time."""
        match = MatchOption.MSG_ID | MatchOption.CORREL_ID
        found: list[Got] = []
        options = _FIRST
        while True:
            got = self._connection.get(
                self._handle,
                GetOptions(options=options, match=match, message_id=entry.message_id, correlation_id=entry.correlation_id),
            )
            if got is None:
                return found
            if (got.descriptor.put_date, got.descriptor.put_time) == (entry.put_date, entry.put_time):
                found.append(got)
            options = _NEXT

    def _get(self, options: GetOptions) -> Got | None:
        return self._connection.get(self._handle, options)

    def _reopen(self) -> ObjectHandle:
        """Reopen the queue, and return the handle with its cursor before the first message."""
        self._connection.close(self._handle)
        options = OpenOption.INPUT_EXCLUSIVE | OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING
        self._handle = self._connection.open(self._lane.queue, options)
        return self._handle

    def _backout(self) -> None:
        try:
            self._connection.backout()
        except MQIError:  # the connection is gone, and with it the unit of work
            return


def drain_lane(where: Folder | Path, kind: Kind, *, queue: str, queue_manager: str) -> tuple[Journal, Lane]:
    """Return the journal with the manifests of a queue, and its lane; creates both if they are missing."""
    journal = Journal.create(where)
    return journal, journal.add_lane(queue, kind, queue=queue, queue_manager=queue_manager)


def browse_unit(connection: Connection, handle: ObjectHandle, rows_max: int) -> list[Got]:
    """Return the next messages after the cursor: at most `rows_max`, and about 64 MiB of bodies."""
    unit: list[Got] = []
    size = 0
    while len(unit) < rows_max and size < _UNIT_BYTES:
        got = connection.get(handle, GetOptions(options=_NEXT))
        if got is None:
            break
        unit.append(got)
        size += len(got.body)
    return unit


def _entry(got: Got) -> _Entry:
    md = got.descriptor
    return _Entry(got.message_token, md.message_id, md.correlation_id, md.put_date, md.put_time)
