"""Puts the rows of one partition of one batch on queues exactly once, with a marker message in the unit of work of the puts.

Each sink (by name) has a marker for each partition on a marker queue. The marker holds the number of the current batch, how
many of its rows are on their queues, and a digest of these rows. The unit of work that puts rows also gets the marker and puts
the next marker. So the marker is correct after any kill and any commit in doubt. A replay with other rows is an error, because
skipping rows by count would lose some rows and repeat others. This file knows `mqflow.verbs`, but no Spark.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from threading import Event
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mqflow.many_verbs import inquire_queue_manager, open_to_put
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption, OpenOption, Persistence, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.pipeline.errors import SinkError
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle

__all__ = ("Batch", "Message", "prepare", "put_batch", "put_plainly", "rows_per_unit")

_FORMAT: Final = "MFLSINK"
"""MQMD.Format of a marker: JSON in UTF-8."""
_HEADER: Final = -1
"""The partition number of the marker for the whole sink (the header marker)."""
# A marker has no properties; if another program adds some, this option shows them in the data.
_ALL_PROPERTIES: Final = GetOption.PROPERTIES_FORCE_MQRFH2
_NONE_YET: Final = -1
_MARKER_WAIT_MS: Final = 30_000
_RETRY_S: Final = 0.2
_TRIES: Final = 150
_SHARED: Final = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
_PUT: Final = PutOption.SYNCPOINT | PutOption.FAIL_IF_QUIESCING


class Message(Struct, frozen=True):
    """A row as a message to put."""

    queue: str
    descriptor: MessageDescriptor
    body: bytes


class Batch(Struct, frozen=True, kw_only=True):
    """One partition of one batch of a sink."""

    #: The name of the sink: the same in every run, and unique for each stream.
    sink: str
    #: Spark's identifier of the query, from its checkpoint; empty for a batch job.
    query: str = ""
    number: int = 0
    partition: int
    #: The fixed number of partitions of the sink.
    partitions: int


class _Marker(Struct, frozen=True, kw_only=True):
    sink: str
    partition: int
    partitions: int
    query: str = ""
    batch: int = _NONE_YET
    #: How many rows of the batch are put, their digest, and whether those are all rows.
    rows: int = 0
    digest: str = ""
    complete: bool = True


def prepare(connection: Connection, marker_queue: str, sink: str, partitions: int) -> None:
    """Create the markers of the sink at its first run, all in one unit of work, with exclusive use of the marker queue.

    Raises `SinkError` if the sink has another number of partitions. The first run also raises it if another program keeps the
    queue open.
    """
    header = _find_header(connection, marker_queue, sink)
    if header is None:
        header = _create_markers(connection, marker_queue, sink, partitions)
    if header.partitions != partitions:
        raise SinkError(
            f"The sink {sink} has {header.partitions} partitions and cannot have {partitions}: a replay of a batch would find "
            "rows in other partitions. Repartition to the former number, or give the sink another name."
        )


def put_batch(
    connection: Connection,
    marker_queue: str,
    batch: Batch,
    rows: Iterable[Message],
    *,
    unit_rows: int,
    options: PutOption = _PUT,
) -> int:
    """Put the rows that are not on their queues yet; return how many. Each unit of work replaces the marker.

    Raises `SinkError` if the rows differ from the rows of the first attempt. Raises `SinkError` also for a marker that is in
    use, is missing, or belongs to another query. Raises `SinkError` if another attempt of the task puts rows meanwhile. Raises
    `MQIError` as the puts and commits do. After an error, no row of the current unit of work is on a queue.
    """
    puts = _Puts(connection, options)
    markers = connection.open(marker_queue, _SHARED)
    try:
        remaining = iter(rows)
        put = 0
        marker = _get_marker(connection, markers, batch)
        done, digest = _skip_put_rows(marker, batch, remaining)
        while done is not None:
            chunk = list(islice(remaining, unit_rows))
            for row in chunk:
                puts.put(row)
                digest.add(row)
            done += len(chunk)
            complete = len(chunk) < unit_rows
            marker = _next_marker(batch, done, digest.hexdigest(), complete=complete)
            _put_marker(connection, markers, marker)
            connection.commit()
            put += len(chunk)
            if complete:
                return put
            _check_not_overtaken(batch, marker, _get_marker(connection, markers, batch))
        connection.backout()  # all rows were put before: the marker goes back to its queue
    except MQIError as error:
        if error.reason not in _GONE:
            connection.backout()
        raise
    except BaseException:
        connection.backout()
        raise
    else:
        return put


def put_plainly(connection: Connection, rows: Iterable[Message], *, unit_rows: int, options: PutOption = _PUT) -> int:
    """Put the rows without a marker; return how many. A replay puts them again."""
    puts = _Puts(connection, options)
    remaining = iter(rows)
    put = 0
    while chunk := list(islice(remaining, unit_rows)):
        for row in chunk:
            puts.put(row)
        connection.commit()
        put += len(chunk)
    return put


def rows_per_unit(connection: Connection, wanted: int) -> int:
    """Return how many rows one unit of work has: at most MAXUMSGS less two, because the get and the put of the marker count."""
    try:
        return max(1, min(wanted, inquire_queue_manager(connection).max_uncommitted_messages - 2))
    except MQIError as error:
        if error.reason != Reason.NOT_AUTHORIZED:
            raise
        return wanted


_GONE: Final = frozenset({Reason.BACKED_OUT, Reason.CONNECTION_BROKEN, Reason.CALL_INTERRUPTED})


class _Puts:
    """The open target queues of rows."""

    def __init__(self, connection: Connection, options: PutOption) -> None:
        self._connection = connection
        self._options = options
        self._open = OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
        if options & PutOption.SET_ALL_CONTEXT:
            self._open |= OpenOption.SET_ALL_CONTEXT
        self._handles: dict[str, ObjectHandle] = {}

    def put(self, row: Message) -> None:
        handle = self._handles.get(row.queue)
        if handle is None:
            handle = self._handles[row.queue] = open_to_put(self._connection, row.queue, self._open)
        self._connection.put(handle, row.descriptor, row.body, self._options)


class _Digest:
    """A SHA-256 over rows and their lengths, so that different sequences of rows have different digests."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, row: Message) -> None:
        for part in (row.queue.encode(), row.descriptor.to_bytes(), row.body):
            self._hash.update(len(part).to_bytes(8))
            self._hash.update(part)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _skip_put_rows(marker: _Marker, batch: Batch, rows: Iterator[Message]) -> tuple[int | None, _Digest]:
    """Skip the rows that are on their queues already; return their number, or None if these are all rows, and their digest."""
    digest = _Digest()
    if marker.batch > batch.number:
        raise SinkError(
            f"Partition {batch.partition} of the sink {batch.sink} has put batch {marker.batch} already, and now gets batch "
            f"{batch.number}: its checkpoint is older. Nothing was put. Give the sink another name to put all rows again."
        )
    if marker.batch < batch.number:
        if not marker.complete:
            raise SinkError(
                f"Partition {batch.partition} of the sink {batch.sink} stopped within batch {marker.batch}, and now "
                f"gets batch {batch.number}. Nothing was put. Let the query replay batch {marker.batch} from its checkpoint."
            )
        return 0, digest
    skipped = 0
    for row in islice(rows, marker.rows):
        digest.add(row)
        skipped += 1
    more = next(rows, None) if marker.complete else None
    if skipped != marker.rows or digest.hexdigest() != marker.digest or more is not None:
        raise SinkError(
            f"Batch {batch.number}, partition {batch.partition} of the sink {batch.sink} differs in a replay from "
            f"the rows that are on their queues ({marker.rows}). Nothing was put. Repartition by a key just "
            "before the write (mqflow.pipeline.sinks.queue.keyed), and use nothing that changes from run to run."
        )
    return (None if marker.complete else skipped), digest


def _check_not_overtaken(batch: Batch, put: _Marker, got: _Marker) -> None:
    """Raise `SinkError` if another attempt of this task has replaced the marker since this attempt put it."""
    if got != put:
        raise SinkError(
            f"Batch {batch.number}, partition {batch.partition} of the sink {batch.sink}: another attempt of this task has put "
            f"rows meanwhile. This attempt has ended after the first {put.rows} rows. No row is on a queue twice. Run the "
            "write again, if Spark does not do this."
        )


def _next_marker(batch: Batch, rows: int, digest: str, *, complete: bool) -> _Marker:
    return _Marker(
        sink=batch.sink,
        partition=batch.partition,
        partitions=batch.partitions,
        query=batch.query,
        batch=batch.number,
        rows=rows,
        digest=digest,
        complete=complete,
    )


def _get_marker(connection: Connection, markers: ObjectHandle, batch: Batch) -> _Marker:
    """Get the marker under syncpoint, so that no other task can put for this partition until the unit of work ends."""
    got = connection.get(
        markers,
        GetOptions(
            options=GetOption.SYNCPOINT | GetOption.WAIT | GetOption.FAIL_IF_QUIESCING | _ALL_PROPERTIES,
            wait_ms=_MARKER_WAIT_MS,
            match=MatchOption.CORREL_ID,
            correlation_id=_key(batch.sink, batch.partition),
        ),
    )
    if got is None:
        raise SinkError(
            f"The marker of partition {batch.partition} of the sink {batch.sink} is not on {markers.name}. Another task holds "
            f"it, or the rows are in more partitions than the sink's {batch.partitions}, or another program removed it. "
            "Nothing was put."
        )
    marker = _decode(got)
    if marker.query and marker.query != batch.query:
        raise SinkError(
            f"The sink {batch.sink} belongs to query {marker.query}, and this is {batch.query or 'a batch job'}, whose "
            "batches have the same numbers. Nothing was put. Use the former checkpoint, or give the sink another name."
        )
    return marker


def _put_marker(connection: Connection, markers: ObjectHandle, marker: _Marker) -> None:
    descriptor = MessageDescriptor(
        format=_FORMAT, ccsid=1208, persistence=Persistence.PERSISTENT, correlation_id=_key(marker.sink, marker.partition)
    )
    connection.put(markers, descriptor, msgspec.json.encode(marker), _PUT | PutOption.NEW_MSG_ID)


def _find_header(connection: Connection, marker_queue: str, sink: str) -> _Marker | None:
    """Return the header marker, which has the number of partitions; None if the sink is new."""
    handle = connection.open(marker_queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
    try:
        return _browse_header(connection, handle, sink)
    finally:
        connection.close(handle)


def _create_markers(connection: Connection, marker_queue: str, sink: str, partitions: int) -> _Marker:
    handle = _open_exclusive(connection, marker_queue, sink)
    try:
        found = _browse_header(connection, handle, sink)
        if found is not None:
            return found
        header = _Marker(sink=sink, partition=_HEADER, partitions=partitions)
        for number in (_HEADER, *range(partitions)):
            _put_marker(connection, handle, replace(header, partition=number))
        connection.commit()
        return header
    finally:
        connection.close(handle)


def _browse_header(connection: Connection, handle: ObjectHandle, sink: str) -> _Marker | None:
    options = GetOptions(
        options=GetOption.BROWSE_FIRST | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | _ALL_PROPERTIES,
        match=MatchOption.CORREL_ID,
        correlation_id=_key(sink, _HEADER),
    )
    got = connection.get(handle, options)
    return None if got is None else _decode(got)


def _open_exclusive(connection: Connection, marker_queue: str, sink: str) -> ObjectHandle:
    """Return an exclusive handle, because two concurrent first runs would create two sets of markers."""
    options = OpenOption.INPUT_EXCLUSIVE | OpenOption.BROWSE | OpenOption.OUTPUT | OpenOption.FAIL_IF_QUIESCING
    for _ in range(_TRIES):
        try:
            return connection.open(marker_queue, options)
        except MQIError as error:
            if error.reason != Reason.OBJECT_IN_USE:
                raise
        Event().wait(_RETRY_S)
    raise SinkError(
        f"The first run of the sink {sink} needs exclusive use of {marker_queue} for a moment, and other sinks kept it open "
        f"for {_TRIES * _RETRY_S:.0f} s. Try again, or give the sink a markerQueue of its own."
    )


def _decode(got: Got) -> _Marker:
    try:
        return msgspec.json.decode(got.body, type=_Marker)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SinkError(f"A message on the queue of markers, {got.resolved_queue}, is not a marker: {error}.") from error


def _key(sink: str, partition: int) -> bytes:
    return sha256(f"mqflow sink\0{sink}\0{partition}".encode()).digest()[:24]
