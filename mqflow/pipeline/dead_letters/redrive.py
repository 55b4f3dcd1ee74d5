"""Puts messages of a table back on queues, each once.

A marker message in the unit of work of the puts names the last row that was put, for each lane of the journal. A message goes
back as it was before its move (`policy.dead_letters.original_message`), with its MsgId and all its context. If a redrive is
killed, a new redrive with the same id continues. After a commit in doubt, the marker shows whether the commit took effect.
Positions in a lane never change, so rows that land later do no harm. This file knows columns and the verbs; Spark only passes
rows.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mqflow.many_verbs import open_to_put
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.dead_letters.redrive_plan import NO_ORIGIN, NOT_WHOLE
from mqflow.pipeline.errors import PipelineError
from mqflow.policy.dead_letters.original_message import restored
from mqflow.policy.poison import disposition_record
from mqflow.policy.poison.disposition_record import DispositionRecord, RecordOutcome, put_time_us
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.verbs import Connection, GetOptions, ObjectDescriptor, ObjectHandle
from mqflow.world import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ("STATE_QUEUE", "TableRedriver", "Unit", "rows_of")

STATE_QUEUE: Final = "MQFLOW.REDRIVE.STATE"
"""The queue of markers: one message for each redrive, found by CorrelId."""
_FORMAT: Final = "MFLREDR"
# A marker has no properties; if another program adds some, this option shows them in the data.
_ALL_PROPERTIES: Final = GetOption.PROPERTIES_FORCE_MQRFH2
_STATE: Final = OpenOption.INPUT_EXCLUSIVE | OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
_TARGET: Final = OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_PUT: Final = PutOption.SYNCPOINT | PutOption.SET_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING
_PUT_MARKER: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING
_RECORD: Final = MessageDescriptor(format=disposition_record.FORMAT, ccsid=1208, persistence=Persistence.PERSISTENT)
_COLUMNS: Final = ("lane", "segment", "ordinal", "mqmd", "body", "body_truncated")

Row: TypeAlias = Mapping[str, Any]  # values of many types, as Spark gives them
RowPosition = tuple[int, int]


class _Marker(Struct, frozen=True, omit_defaults=True):
    redrive: str
    #: By lane: the segment and the ordinal of the last row that was put.
    done: dict[str, RowPosition] = field(default_factory=dict[str, RowPosition])
    of: str = ""
    #: By lane: the number of rows that were put. Markers of an older mqflow lack this field.
    rows: dict[str, int] = field(default_factory=dict[str, int])


class Unit(Struct, frozen=True, kw_only=True):
    """The result of one unit of work."""

    put: int = 0
    #: Rows that an earlier run has put already.
    skipped: int = 0
    #: Rows that cannot be put, with the reasons; the redrive does not try these rows again.
    refused: tuple[str, ...] = ()


def rows_of(chosen: "DataFrame") -> Iterable[Row]:
    """Return these rows of `bronze.dead_letter` or `bronze.backout_message`, in the order of landing."""
    wanted = chosen.select(*_COLUMNS).orderBy("lane", "segment", "ordinal")
    return (row.asDict() for row in wanted.toLocalIterator(prefetchPartitions=True))


class TableRedriver(Struct, kw_only=True):
    """Puts rows on queues. Exclusive input from the state queue allows one redrive at a time."""

    connection: Connection
    #: The name of this redrive: the same id continues, another id begins again.
    redrive_id: str
    #: A description of the rows. The same id with another description is an error, because positions mean other rows then.
    of: str = ""
    #: The target queue of all messages; empty to put each message on its queue of origin.
    to: str = ""
    #: The most messages a second; 0 for no limit.
    rate: float = 0.0
    #: Messages in a unit of work: at most MAXUMSGS less two, and half of that with records.
    unit: int = 100
    #: A queue (MQFLOW.DISPOSITION) for a record of each message, put in the same unit of work; empty for no records.
    records: str = ""
    #: Receives one warning if the queue `records` refuses records; the redrive continues without them.
    tell: Callable[[str], None] = lambda _: None
    clock: Clock
    #: Waits for this many seconds.
    pause: Callable[[float], None]
    _refused: bool = False
    _targets: dict[tuple[str, str], ObjectHandle] = field(default_factory=dict[tuple[str, str], ObjectHandle])

    def run(self, rows: Iterable[Row]) -> Generator[Unit, None, None]:
        """Put the rows, and yield the result of each unit of work after its commit. The rows of a lane must come in order.

        Raises `MQIError` if a queue refuses a message, or if the connection is lost. The current unit of work is then backed
        out, or its commit is in doubt. After either error, a new run with the same id continues correctly.
        Raises `PipelineError` for rows out of order, and if an earlier run with this id had another description.

        A run skips the rows up to the last position of the earlier runs with the same id. If a run finds more rows to skip than
        the earlier runs have put, the rows have changed, and the run raises `PipelineError`. A run notices no other change of
        the rows between two runs: a skipped row counts as put.
        """
        state = self.connection.open(STATE_QUEUE, _STATE)
        try:
            yield from self._run(state, rows)
        finally:
            with suppress(MQIError):  # gone with the connection
                self.connection.backout()  # MQDISC would commit an open unit of work
                for handle in (*self._targets.values(), state):
                    self.connection.close(handle)
            self._targets.clear()

    def _run(self, state: ObjectHandle, rows: Iterable[Row]) -> Generator[Unit, None, None]:
        marker = self._take_marker(state)
        self.connection.backout()  # the marker was only read
        due, seen, before = self.clock.monotonic(), dict[str, RowPosition](), marker
        passed = Counter[str]()
        for chunk in _chunks(rows, self.unit):
            left = [row for row in chunk if not _is_done(marker, row)]
            _in_order(chunk, seen)
            passed.update(row["lane"] for row in chunk if _is_done(before, row))
            self._check_passed(before, passed)
            if not left:
                yield Unit(skipped=len(chunk))
                continue
            if self.rate:
                self.pause(max(0.0, due - self.clock.monotonic()))
                due = max(due, self.clock.monotonic()) + len(left) / self.rate
            self._take_marker(state)
            refused = [said for row in left if (said := self._put(row))]
            put = Counter(row["lane"] for row in left)
            marker = replace(
                marker,
                done=marker.done | {row["lane"]: _position(row) for row in left},
                rows={lane: marker.rows.get(lane, 0) + put[lane] for lane in {*marker.rows, *put}},
            )
            self.connection.put(state, self._marker_descriptor(), msgspec.json.encode(marker), _PUT_MARKER)
            self.connection.commit()
            yield Unit(put=len(left) - len(refused), skipped=len(chunk) - len(left), refused=tuple(refused))

    def _check_passed(self, before: _Marker, passed: Mapping[str, int]) -> None:
        """Raise `PipelineError` if this run skips more rows than the earlier runs with this id have put.

        This happens if the condition now chooses other rows, for example because it contains the current time.
        """
        for lane, count in passed.items():
            if lane in before.rows and count > before.rows[lane]:
                raise PipelineError(
                    f"Redrive {self.redrive_id} has put {before.rows[lane]:,} rows of lane {lane} up to its last position, "
                    f"and now at least {count:,} are chosen up to there. Some were never put, and it is unknown which. "
                    "Nothing more was put. Choose by values that do not change (no current_timestamp), under another id. "
                    "Leave out the rows that were put: another id puts every row that it chooses."
                )

    def _take_marker(self, state: ObjectHandle) -> _Marker:
        """Get the marker of this redrive under syncpoint, or return an empty marker if there is no message."""
        asked = GetOptions(
            options=GetOption.SYNCPOINT | GetOption.FAIL_IF_QUIESCING | _ALL_PROPERTIES,
            match=MatchOption.CORREL_ID,
            correlation_id=self._marker_descriptor().correlation_id,
        )
        got = self.connection.get(state, asked)
        if got is None:
            return _Marker(self.redrive_id, of=self.of)
        marker = msgspec.json.decode(got.body, type=_Marker)
        if marker.of != self.of:
            raise PipelineError(
                f"Redrive {self.redrive_id} began with {marker.of or 'rows without a description'}, and now gets {self.of}. "
                "Nothing was put, because its positions mean other rows. Give this redrive another id. With another id "
                "it puts every row that it chooses, also the rows that it has put before."
            )
        return marker

    def _put(self, row: Row) -> str:
        """Put the message as it was before its move; return the reason if that is impossible, else an empty text."""
        where = f"{row['lane']} {row['segment']}/{row['ordinal']}"
        if row["mqmd"] is None or row["body"] is None or row["body_truncated"]:
            return f"{where}: {NOT_WHOLE}."
        before = restored(MessageDescriptor.from_bytes(row["mqmd"]), bytes(row["body"]))
        target = (self.to, "") if self.to else (before.origin_queue, before.origin_queue_manager)
        if not target[0]:
            return f"{where}: {NO_ORIGIN}."
        handle = self._targets.get(target)
        if handle is None:
            described = ObjectDescriptor(target[0], queue_manager=target[1])
            handle = self._targets[target] = open_to_put(self.connection, described, _TARGET)
        self.connection.put(handle, before.descriptor, before.data, _PUT)
        if self.records:
            record = self._record(before.descriptor, target, f"{row['lane']}/{row['segment']}/{row['ordinal']}")
            self._put_record(record)
        return ""

    def _put_record(self, record: DispositionRecord) -> None:
        try:
            self.connection.put1(self.records, _RECORD, disposition_record.to_bytes(record), _PUT_MARKER)
        except MQIError as error:
            # A full unit of work (2024) has no room for its marker either; a lost connection is not a refusal.
            if error.reason == Reason.SYNCPOINT_LIMIT_REACHED or needs_reconnect(error):
                raise
            if not self._refused:
                self.tell(f"The messages are put back without records. {error}")
            self._refused = True

    def _record(self, md: MessageDescriptor, target: tuple[str, str], at: str) -> DispositionRecord:
        """Return the record of the redrive. The message keeps its MsgId and put time, which link it to later records."""
        here = self.connection.queue_manager_name
        return DispositionRecord(
            disp_id=f"{here}/redrive/{self.redrive_id}/{at}",
            event_ts=round(self.clock.wall() * 1_000_000),
            qmgr=target[1] or here,
            queue=target[0],
            msg_id=md.message_id,
            correl_id=md.correlation_id,
            put_ts=put_time_us(md.put_date, md.put_time),
            outcome=RecordOutcome.REDRIVEN,
            redrive_id=self.redrive_id,
            redrive_of=md.message_id,
        )

    def _marker_descriptor(self) -> MessageDescriptor:
        name = sha256(f"mqflow redrive {self.redrive_id}".encode()).digest()[:24]
        return MessageDescriptor(format=_FORMAT, correlation_id=name, persistence=Persistence.PERSISTENT)


def _chunks(rows: Iterable[Row], most: int) -> Generator[list[Row], None, None]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == most:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _in_order(chunk: Iterable[Row], seen: dict[str, RowPosition]) -> None:
    for row in chunk:
        lane, at = row["lane"], _position(row)
        if at <= seen.get(lane, (-1, -1)):
            raise PipelineError(f"Lane {lane}: row {at} came after {seen[lane]}. A redrive takes rows in order, each once.")
        seen[lane] = at


def _is_done(marker: _Marker, row: Row) -> bool:
    return _position(row) <= tuple(marker.done.get(row["lane"], (-1, -1)))


def _position(row: Row) -> RowPosition:
    return (row["segment"], row["ordinal"])
