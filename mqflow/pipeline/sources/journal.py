"""`mqflow_journal`: a journal as a source of Spark, in batches and as a stream.

A lane of a journal has the segments of one queue. An offset is the last segment of each lane, so another process can read every
batch again from files alone. `latestOffset` first acknowledges the segments up to its start, because Spark never calls `commit`
for the last batch (tests/pipeline/sources/test_journal_stream.py has the order of Spark's calls). This file loads Spark, so
only `register` imports it. It knows the journal, but no queue manager.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mqflow.folders import Folder, folder_at
from mqflow.journal import Consumers, Journal, Kind, Lane, LaneError, Segment
from mqflow.pipeline.errors import OptionError
from mqflow.pipeline.payload import Payload, payload_of
from mqflow.pipeline.sources.offsets import Limit, admitted, from_offset, identities_in, packed, to_offset
from mqflow.pipeline.sources.segment_rows import Part, chosen_columns, ddl_of, read_part
from mqflow.pipeline.spark_options import options_of
from mqflow.world import SYSTEM_CLOCK

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ("JournalSource",)

NAME: Final = "mqflow_journal"
_KNOWN: Final = (
    "path", "kind", "lanes", "startingSegment", "segments", "maxRowsPerTrigger", "maxBytesPerTrigger", "consumer", "columns",
    "payload", "partitionBytes", "minPartitions", "pushdown",
)  # fmt: skip
_SEGMENT_DIGITS_MAX: Final = 12
"""The number of digits of a segment in the name of its file."""
_PARTITION_BYTES: Final = 64 * 1024 * 1024
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


class _Settings(Struct, frozen=True, kw_only=True):
    """The options, parsed."""

    folder: Folder
    kind: Kind
    lanes: tuple[str, ...]
    #: The number of the first segment to read; None means the first segment that is not trimmed. "latest" sets `from_latest`.
    starting_segment: int | None
    from_latest: bool
    #: The first and the last segment of each lane to read, or None for all segments.
    segments: dict[str, tuple[int, int]] | None
    limit: Limit
    consumer: str
    columns: tuple[str, ...]
    payload: Payload
    part_bytes: int
    parts_least: int
    pushdown: bool


class JournalSource(DataSource):
    """`spark.read.format("mqflow_journal").option("path", ...)`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> str:
        """Return the requested columns, with the types of the segments. Raises the errors of `Journal.open`."""
        settings = _settings(self.options)
        return ddl_of(settings.kind, settings.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the journal as it is now."""
        settings = _settings(self.options)
        kind = _PushingReader if settings.pushdown else _Reader
        return kind(settings, _names(settings, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that follows the journal."""
        settings = _settings(self.options)
        return _StreamReader(settings, _names(settings, schema))


class _Reader(DataSourceReader):
    """Reads the segments that exist when Spark plans the query."""

    def __init__(self, settings: _Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return the segments of every lane, packed. Raises `LaneError` for a named lane that does not exist."""
        settings = self._settings
        segments: list[Segment] = []
        journal = Journal.open(settings.folder)
        for name in settings.lanes:
            journal.lane(name)  # only a stream waits for a lane
        if settings.segments is not None:
            for name, (first, last) in settings.segments.items():
                segments += self._wanted(journal.lane(name).segments(after=first - 1, through=last))
            return _parts(segments, settings)
        for lane in _lanes(settings):
            segments += self._wanted(lane.segments(after=_before_first(settings, lane)))
        return _parts(segments, settings)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one part."""
        return read_part(partition, self._settings.kind, self._columns, self._settings.payload)

    def _wanted(self, segments: Sequence[Segment]) -> Iterable[Segment]:
        return segments


class _PushingReader(_Reader):
    """A `_Reader` that also skips the segments that a filter on `lane` or `segment` excludes.

    It is a separate class, because Spark refuses a reader that *has* `pushFilters` if pushdown is off, which is the default.
    """

    def __init__(self, settings: _Settings, columns: tuple[str, ...]) -> None:
        super().__init__(settings, columns)
        self._filters: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters, and return all of them, because Spark must still filter the rows."""
        self._filters = tuple(filters)
        return filters

    def _wanted(self, segments: Sequence[Segment]) -> Iterable[Segment]:
        return [segment for segment in segments if all(_may_match(segment, each) for each in self._filters)]


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the journal. Spark keeps one reader in its own process and pickles copies of it, so `__init__` opens nothing."""

    def __init__(self, settings: _Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns
        #: The end of this run with `availableNow`.
        self._target: dict[str, int] | None = None
        self._reached: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset at which a new query begins."""
        journal = Journal.open(self._settings.folder)
        lanes = _lanes(self._settings)
        if self._settings.from_latest:
            return to_offset(journal.id, {lane.name: lane.last for lane in lanes}, _identities(lanes))
        return to_offset(journal.id, {lane.name: _before_first(self._settings, lane) for lane in lanes}, _identities(lanes))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Decide where this run ends; segments that land later belong to the next run."""
        self._target = {lane.name: _end(lane) for lane in _lanes(self._settings)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options: on rows, otherwise on bytes, because Spark has no class for both."""
        limit = self._settings.limit
        if limit.rows is not None:
            return ReadMaxRows(limit.rows)
        return ReadAllAvailable() if limit.bytes is None else ReadMaxBytes(limit.bytes)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Acknowledge everything up to `start`, which Spark has committed; return the end of the next batch.

        `commit` cannot do this, because Spark calls it neither for the last batch nor after a restart. Raises
        `MissingSegmentError` if segments were lost before they were read, `ForeignOffsetError` if the checkpoint belongs to
        another journal. Raises `LaneError` if the query has read later segments than a lane has, or segments of an earlier
        lane of its name.
        """
        journal = Journal.open(self._settings.folder)
        before = from_offset(journal.id, start)
        lanes = _lanes(self._settings)
        for lane in lanes:
            self._check_end(_checked(lane, start), before.get(lane.name, 0))
        self._acknowledge(journal, start)
        waiting = {lane.name: self._waiting(lane, before.get(lane.name, 0)) for lane in lanes}
        self._reached = admitted(before, waiting, self._limit(limit))
        return to_offset(journal.id, self._reached, identities_in(start) | _identities(lanes))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the journal and the backlog: its rows, and the seconds since the oldest of them landed."""
        journal = Journal.open(self._settings.folder)
        lanes = _lanes(self._settings)
        waiting = [segment for lane in lanes for segment in lane.segments(after=self._reached.get(lane.name, lane.trimmed))]
        oldest = min((segment.modified_s for segment in waiting), default=None)
        return to_offset(journal.id, {lane.name: lane.last for lane in lanes}) | {
            "backlog_rows": sum(segment.rows for segment in waiting),
            "backlog_seconds": 0 if oldest is None else max(0, int(SYSTEM_CLOCK.wall() - oldest)),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the segments between the offsets, packed. Reads the folder only: after a restart nothing else is known."""
        journal = Journal.open(self._settings.folder)
        before, through = from_offset(journal.id, start), from_offset(journal.id, end)
        segments: list[Segment] = []
        for name, last in through.items():
            if last > before.get(name, 0):
                segments += _checked(journal.lane(name), end).segments(after=before.get(name, 0), through=last)
        return _parts(segments, self._settings)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of one part."""
        return read_part(partition, self._settings.kind, self._columns, self._settings.payload)

    def commit(self, end: dict[str, Any]) -> None:
        """Acknowledge the batch; this is a little earlier than the next call of `latestOffset`."""
        self._acknowledge(Journal.open(self._settings.folder), end)

    def _check_end(self, lane: Lane, reached: int) -> None:
        """Raise `LaneError` if the lane ends before the offset of this query, unless the query waits for its first segment."""
        last = lane.last
        if last < reached and reached + 1 != self._settings.starting_segment:
            raise LaneError(
                f"The checkpoint of this query has segments of lane {lane.name} up to {reached}, and the last segment in the "
                f"journal is {last}. The journal lost segments, and new rows would be skipped as read. Nothing was read. "
                "Restore the newest copy of the journal. If the lane was removed and created again, use a new checkpoint."
            )

    def _acknowledge(self, journal: Journal, offset: Mapping[str, Any]) -> None:
        settings = self._settings
        if settings.consumer:
            numbers = from_offset(journal.id, offset).items()
            # A lane without the segment of the option `startingSegment` ends before the offset.
            read = {name: number for name, number in numbers if 0 < number <= _checked(journal.lane(name), offset).last}
            Consumers(journal).commit(settings.consumer, read, kind=settings.kind, lanes=settings.lanes)

    def _waiting(self, lane: Lane, after: int) -> Sequence[Segment]:
        if self._target is None:
            return lane.segments(after=after)
        through = self._target.get(lane.name, 0)
        return lane.segments(after=after, through=through) if through > after else ()

    def _limit(self, limit: ReadLimit) -> Limit:
        match limit:
            case ReadMaxRows(max_rows=rows):
                return Limit(rows=rows, bytes=self._settings.limit.bytes)
            case ReadMaxBytes(max_bytes=size):
                return Limit(bytes=size)
            case _:  # ReadAllAvailable: the trigger takes everything, regardless of the options
                return Limit()


def _settings(given: MutableMapping[str, str]) -> _Settings:
    """Parse the options. Raises `OptionError`, and the errors of `folder_at` and `Journal.open`."""
    options = options_of(NAME, given, _KNOWN)
    folder = folder_at(options.text("path"))
    lanes = options.names("lanes")
    kind = _kind(options.text("kind", ""), folder, lanes)
    starting = options.text("startingSegment", "earliest")
    is_number = starting.isascii() and starting.isdigit() and len(starting) <= _SEGMENT_DIGITS_MAX and int(starting) > 0
    if starting not in {"earliest", "latest"} and not is_number:
        raise OptionError(f"{NAME}: startingSegment={starting!r} is not earliest, latest or a number of at least 1.")
    return _Settings(
        folder=folder,
        kind=kind,
        lanes=lanes,
        starting_segment=int(starting) if is_number else None,
        from_latest=starting == "latest",
        segments=_segments(options.text("segments", "")),
        limit=Limit(rows=options.number("maxRowsPerTrigger", None), bytes=options.number("maxBytesPerTrigger", None)),
        consumer=options.text("consumer", ""),
        columns=chosen_columns(NAME, kind, options.names("columns")),
        payload=payload_of(options.text("payload", "full")),
        part_bytes=options.number("partitionBytes", _PARTITION_BYTES) or _PARTITION_BYTES,
        parts_least=options.number("minPartitions", 2) or 1,
        pushdown=options.boolean("pushdown", default=False),
    )


def _segments(text: str) -> dict[str, tuple[int, int]] | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, tuple[int, int]])
    except msgspec.DecodeError as error:
        raise OptionError(
            f'{NAME}: segments={text!r} is not JSON like {{"LANE": [4, 9]}}: the first and the last segment. ({error})'
        ) from error


def _kind(said: str, folder: Folder, lanes: Sequence[str]) -> Kind:
    """Return the kind to read: the kind in the options, or the kind of the lanes if all lanes have the same kind."""
    if said:
        if said not in set(Kind):
            raise OptionError(f"{NAME}: kind={said!r} is not known. Use one of: {', '.join(Kind)}.")
        return Kind(said)
    journal = Journal.open(folder)
    kinds = {lane.kind for lane in ([journal.lane(name) for name in lanes] if lanes else journal.lanes())}
    if len(kinds) != 1:
        there = ", ".join(sorted(kinds)) or "no lane yet"
        raise OptionError(f"{NAME}: {folder.uri} has {there}. Set the option 'kind' to one of: {', '.join(Kind)}.")
    return kinds.pop()


def _lanes(settings: _Settings) -> list[Lane]:
    """Return the lanes to read, as they are now. A stream waits for a named lane that does not exist yet."""
    lanes = [lane for lane in Journal.open(settings.folder).lanes() if not settings.lanes or lane.name in settings.lanes]
    if settings.lanes and (odd := [lane for lane in lanes if lane.kind is not settings.kind]):
        raise OptionError(f"{NAME}: lane {odd[0].name} of {settings.folder.uri} holds {odd[0].kind}, not {settings.kind}.")
    return [lane for lane in lanes if lane.kind is settings.kind]


def _identities(lanes: Iterable[Lane]) -> dict[str, int]:
    return {lane.name: lane.file.identity for lane in lanes if lane.file.identity}


def _checked(lane: Lane, offset: Mapping[str, Any]) -> Lane:
    """Return the lane. Raises `LaneError` if the offset has segments of an earlier lane of its name."""
    if lane.is_another(identities_in(offset).get(lane.name, 0)):
        raise LaneError(
            f"The checkpoint of this query has segments of an earlier lane {lane.name}: the lane was removed and created "
            "again. Its segments have the same numbers and other rows. Nothing was read. Use a new checkpoint."
        )
    return lane


def _end(lane: Lane) -> int:
    """Return the number of the last segment. Raises `MissingSegmentError` if the lane has lost segments."""
    return max((segment.number for segment in lane.all_segments()), default=lane.trimmed)


def _before_first(settings: _Settings, lane: Lane) -> int:
    """Return the number before the first segment to read."""
    if settings.from_latest:
        raise OptionError(
            f"{NAME}: startingSegment=latest works for streams only. A batch reads from a number, or from earliest."
        )
    return lane.trimmed if settings.starting_segment is None else settings.starting_segment - 1


def _names(settings: _Settings, schema: StructType) -> tuple[str, ...]:
    """Return the columns in the order of the schema. Raises `OptionError` if the query sets another schema."""
    if tuple(schema.names) != settings.columns:
        raise OptionError(
            f"{NAME}: .schema(...) cannot change the columns of the journal. Choose columns with the option 'columns'."
        )
    return settings.columns


def _parts(segments: Sequence[Segment], settings: _Settings) -> list[InputPartition]:
    return [Part(part) for part in packed(segments, part_bytes=settings.part_bytes, least=settings.parts_least)]


def _may_match(segment: Segment, wanted: Filter) -> bool:
    """Return whether the segment can hold a row that passes the filter."""
    values: dict[tuple[str, ...], Any] = {("lane",): segment.lane, ("segment",): segment.number}
    if isinstance(wanted, In) and wanted.attribute in values:
        return values[wanted.attribute] in wanted.value
    compare = _COMPARISONS.get(type(wanted))
    if compare is None or wanted.attribute not in values:  # type: ignore[attr-defined]  # every comparison has an attribute
        return True
    return bool(compare(values[wanted.attribute], wanted.value))  # type: ignore[attr-defined]  # as above
