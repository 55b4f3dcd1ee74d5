"""`mqflow_queue`: a queue as a source of Spark. A batch browses the queue and leaves it unchanged; a stream drains it.

A browse is not a snapshot: it may or may not see messages that come or go while it runs. A stream needs the option `manifest`,
a folder that the driver and all workers see, and a queue for its marker. Prefer `mqflow land` with `mqflow_journal`. This file
loads Spark, so only `register` imports it.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqflow.folders import Folder, folder_at
from mqflow.journal import Consumers, ForeignJournalError, Journal, Kind, Lane, arrow_schema
from mqflow.journal.rows import Position, columns
from mqflow.landing.recovery import STATE_QUEUE
from mqflow.mqi.options import GetOption, OpenOption
from mqflow.pipeline.connections import WorkerConnection, check_url, connected
from mqflow.pipeline.errors import OptionError
from mqflow.pipeline.extras import pa
from mqflow.pipeline.payload import Payload, limited, payload_of
from mqflow.pipeline.sources.drain import Drain, forget
from mqflow.pipeline.sources.offsets import from_offset, to_offset
from mqflow.pipeline.sources.segment_rows import Part, chosen_columns, ddl_of, read_part
from mqflow.pipeline.spark_options import options_of
from mqflow.verbs import Connection, GetOptions, Got, ObjectHandle
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM

__all__ = ("QueueSource",)

NAME: Final = "mqflow_queue"
_KNOWN: Final = ("url", "queue", "kind", "payload", "columns", "maxMessages", "manifest", "maxRowsPerTrigger", "stateQueue")
_NEXT: Final = GetOptions(
    options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT | GetOption.FAIL_IF_QUIESCING | GetOption.PROPERTIES_FORCE_MQRFH2
)
_UNIT_BYTES: Final = 64 * 1024 * 1024
_ROWS_PER_BATCH: Final = 1_000
_ROWS_PER_TRIGGER: Final = 10_000
_CURRENT_Q_DEPTH: Final = 3
"""MQIA_CURRENT_Q_DEPTH."""


class _Settings(Struct, frozen=True, kw_only=True):
    url: str
    queue: str
    kind: Kind
    payload: Payload
    columns: tuple[str, ...]
    messages_max: int | None
    manifest: Folder | None
    rows_per_trigger: int
    state_queue: str


@dataclass(frozen=True)
class _Browse(InputPartition):
    """One browse of the queue."""

    snapshot_id: str


class QueueSource(DataSource):
    """`spark.read.format("mqflow_queue").option("url", ...).option("queue", ...)`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> str:
        """Return the requested columns, which are those of segments of this kind."""
        settings = _settings(self.options)
        return ddl_of(settings.kind, settings.columns)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Return a reader that browses the queue."""
        return _Reader(_settings(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return a reader that drains the queue. Raises `OptionError` without a `manifest`."""
        settings = _settings(self.options)
        if settings.manifest is None:
            raise OptionError(
                f"{NAME}: a stream drains the queue, and needs the option 'manifest': a folder that the driver and the "
                "workers see."
            )
        return _StreamReader(settings, settings.manifest)


class _Reader(DataSourceReader):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Return one part, because a queue has one order and so needs one cursor."""
        return [_Browse(f"{int(SYSTEM_RANDOM.random() * 2**48):012x}")]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the messages, from the head of the queue."""
        assert isinstance(partition, _Browse)  # noqa: S101 - Spark passes our own parts
        settings = self._settings
        left = settings.messages_max
        with connected(settings.url, "mqflow spark browse") as connection:
            handle = connection.open(settings.queue, OpenOption.BROWSE | OpenOption.FAIL_IF_QUIESCING)
            first = 0
            while left is None or left > 0:
                unit = _browse_unit(connection, handle, _ROWS_PER_BATCH if left is None else min(left, _ROWS_PER_BATCH))
                if not unit:
                    return
                batch = _batch(settings, unit, connection.queue_manager_name, first, partition.snapshot_id)
                yield batch
                first += batch.num_rows
                left = None if left is None else left - len(unit)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Drains the queue. Spark keeps one reader, with the connection, in a process of its own; its copies only read files."""

    def __init__(self, settings: _Settings, manifest: Folder) -> None:
        self._settings = settings
        self._manifest = manifest
        self._draining: tuple[WorkerConnection, Drain] | None = None
        #: How many messages this run still takes with `availableNow`.
        self._left: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection, because other processes only read files."""
        return {"_settings": self._settings, "_manifest": self._manifest, "_draining": None, "_left": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the beginning of the manifest.

        A new query with an old manifest begins with the batches that are still there. These can be the last batch of the old
        query, and one batch that the old query has not committed.
        """
        journal, lane = self._lane()
        return to_offset(journal.id, {lane.name: lane.trimmed})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End this run after about as many messages as are on the queue now, plus the batches from before a kill."""
        with connected(self._settings.url, "mqflow spark drain") as connection:
            handle = connection.open(self._settings.queue, OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING)
            self._left = int(connection.inquire(handle, (_CURRENT_Q_DEPTH,)).values[_CURRENT_Q_DEPTH])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the number of messages that a batch takes."""
        return ReadMaxRows(self._settings.rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark's name
        """Delete the batches up to `start`, then move the next batch from the queue into the manifest."""
        journal, lane = self._lane()
        after = from_offset(journal.id, start).get(lane.name, 0)
        forget(journal, lane, after)
        if self._left is not None and self._left <= 0:
            return to_offset(journal.id, {lane.name: max(after, min(lane.last, after + 1))})
        try:
            reached_now, taken = self._drain(journal, lane).take(after)
        except BaseException:
            self.stop()  # perhaps the connection is lost, or a commit is in doubt: the next drain reads the marker
            raise
        if self._left is not None:
            self._left -= taken
        return to_offset(journal.id, {lane.name: reached_now})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the segments between the offsets, from the manifest only."""
        journal = Journal.open(self._manifest)
        before, through = from_offset(journal.id, start), from_offset(journal.id, end)
        return [
            Part((segment,))
            for name, last in through.items()
            if last > before.get(name, 0)
            for segment in journal.lane(name).segments(after=before.get(name, 0), through=last)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one part."""
        return read_part(partition, self._settings.kind, self._settings.columns, self._settings.payload)

    def stop(self) -> None:
        """Close the connection. Deletes no batch, because Spark can call this right after a kill."""
        if self._draining is not None:
            self._draining[0].close()
            self._draining = None

    def _lane(self) -> tuple[Journal, Lane]:
        with suppress(ForeignJournalError):  # the first run makes it
            journal = Journal.open(self._manifest)
            known = [lane for lane in journal.lanes() if lane.name == self._settings.queue]
            if known:
                return journal, known[0]
        with connected(self._settings.url, "mqflow spark drain") as connection:
            name = connection.queue_manager_name
        journal = Journal.create(self._manifest)
        queue = self._settings.queue
        return journal, Consumers(journal).add_lane(queue, self._settings.kind, queue=queue, queue_manager=name)

    def _drain(self, journal: Journal, lane: Lane) -> Drain:
        if self._draining is None:
            settings = self._settings
            found = WorkerConnection(settings.url, "mqflow spark drain")
            try:
                drain = Drain(
                    found.connection,
                    journal,
                    lane,
                    messages_max=settings.rows_per_trigger,
                    state_queue=settings.state_queue,
                    clock=SYSTEM_CLOCK,
                )
                self._draining = (found, drain)
            except BaseException:
                found.close()
                raise
        return self._draining[1]


def _browse_unit(connection: Connection, handle: ObjectHandle, rows_max: int) -> list[Got]:
    """Return the next messages after the cursor: at most `rows_max`, and about 64 MiB of bodies."""
    unit: list[Got] = []
    size = 0
    while len(unit) < rows_max and size < _UNIT_BYTES:
        got = connection.get(handle, _NEXT)
        if got is None:
            break
        unit.append(got)
        size += len(got.body)
    return unit


def _batch(settings: _Settings, unit: Sequence[Got], queue_manager: str, first: int, snapshot_id: str) -> "pa.RecordBatch":
    landed_us = int(SYSTEM_CLOCK.wall() * 1_000_000)
    position = Position(lane=settings.queue, segment=0, landed_us=landed_us, queue=settings.queue, queue_manager=queue_manager)
    made = columns(settings.kind, unit, position)
    made["ordinal"] = range(first, first + len(made["ordinal"]))
    if "snapshot_id" in made:
        made["snapshot_id"] = [snapshot_id] * len(unit)
    fields = [arrow_schema(settings.kind).field(name) for name in settings.columns]
    arrays = [pa.array(made[field.name], field.type) for field in fields]
    return limited(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), settings.payload)


def _settings(given: MutableMapping[str, str]) -> _Settings:
    options = options_of(NAME, given, _KNOWN)
    kind = Kind(options.one_of("kind", list(Kind), Kind.PAYLOAD))
    url = options.text("url")
    check_url(NAME, url)
    manifest = options.text("manifest", "")
    return _Settings(
        url=url,
        queue=options.text("queue"),
        kind=kind,
        payload=payload_of(options.text("payload", "full")),
        columns=chosen_columns(NAME, kind, options.names("columns")),
        messages_max=options.number("maxMessages", None),
        manifest=folder_at(manifest) if manifest else None,
        rows_per_trigger=options.number("maxRowsPerTrigger", _ROWS_PER_TRIGGER) or _ROWS_PER_TRIGGER,
        state_queue=options.text("stateQueue", STATE_QUEUE),
    )
