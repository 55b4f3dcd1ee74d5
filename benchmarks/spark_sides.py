"""The sides of the ratios of `benchmarks.spark`: each function runs in a process of `spark_processes` and returns a sample.

This file also has sources and sinks that are not part of mqflow, for comparison with mqflow's own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.samples import Sample
from benchmarks.spark_processes import consumed, metered, session
from benchmarks.triage import RULES, first_rules, letters
from mqflow.journal import Journal, Kind, Lane, Segment, columns_of, read_batches
from mqflow.journal.schemas import ddl
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.pipeline.dead_letters.rules_columns import COLUMNS, compile_rules
from mqflow.pipeline.delta import sink as delta
from mqflow.pipeline.delta.columns import arrow_schema_of
from mqflow.pipeline.sources.journal_frame import journal_frame
from mqflow.pipeline.sources.offsets import packed
from mqflow.policy.dead_letters.actions import DeadLetter, matchers
from mqflow.testing.journals import add_segment, generate_journal, invented

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

__all__ = (
    "by_column",
    "by_udf",
    "delta_by_batches",
    "delta_by_rows",
    "journal_by_batches",
    "journal_by_rows",
    "journal_of_seven",
    "journal_scanned",
    "journal_scanned_of_seven",
    "made_journal",
    "parquet_of_seven",
    "parquet_read",
    "parquet_written",
)

_SEGMENT_ROWS: Final = 20_000
_BODY_BYTES: Final = 300
_KIND: Final = Kind.DEAD_LETTER
_SEVEN: Final = ("qmgr", "dlq", "dlh_reason", "msg_id", "put_ts", "msg_len", "body")
"""The columns that both forms have: two texts, numbers, a time, and the body."""
_PART_BYTES: Final = 64 * 1024 * 1024


def made_journal(folder: Path, rows: int) -> None:
    """Make a journal of dead letters, bodies of 300 bytes, and the same rows as Parquet files of Spark."""
    size = min(rows, _SEGMENT_ROWS)
    lane: Lane = generate_journal(folder / "journal", _KIND, segments=0, lane="DLQ")
    unit = invented(_KIND, size, seed=1, body_bytes=_BODY_BYTES)
    for _ in range(rows // size):
        add_segment(lane, unit)
    _journal(folder).write.parquet(str(folder / "parquet"))


def journal_by_batches(folder: Path, rows: int) -> Sample:
    """Read every column of the journal through `mqflow_journal`."""
    return metered(rows, lambda: consumed(_journal(folder)))


def journal_by_rows(folder: Path, rows: int) -> Sample:
    """Read the segments of the journal through a source that yields tuples."""
    session().dataSource.register(Tuples)
    return metered(rows, lambda: consumed(session().read.format(Tuples.name()).load(str(folder / "journal"))))


def parquet_read(folder: Path, rows: int) -> Sample:
    """Read the rows of the journal, as Parquet files, through Spark's own scan."""
    return metered(rows, lambda: consumed(session().read.parquet(str(folder / "parquet"))))


def journal_scanned(folder: Path, rows: int) -> Sample:
    """Read every column of the journal through `journal_frame`, with its check of every segment."""
    return metered(rows, lambda: consumed(_frame(folder)))


def journal_scanned_of_seven(folder: Path, rows: int) -> Sample:
    """Read seven columns of the journal through `journal_frame`."""
    return metered(rows, lambda: consumed(_frame(folder).select(*_SEVEN)))


def journal_of_seven(folder: Path, rows: int) -> Sample:
    """Read seven columns of the journal, which the option `columns` chooses."""
    return metered(rows, lambda: consumed(_journal(folder, *_SEVEN)))


def parquet_of_seven(folder: Path, rows: int) -> Sample:
    """Read the same seven columns through Spark's own scan, which finds the columns in the query."""
    return metered(rows, lambda: consumed(session().read.parquet(str(folder / "parquet")).select(*_SEVEN)))


def delta_by_batches(folder: Path, rows: int) -> Sample:
    """Write rows with bodies through `mqflow_delta`."""
    return _written("mqflow_delta", folder / "by-batches", rows)


def delta_by_rows(folder: Path, rows: int) -> Sample:
    """Write rows with bodies into a Delta table, like `delta_by_batches`, through a sink that receives rows."""
    session().dataSource.register(RowSink)
    return _written(RowSink.name(), folder / "by-rows", rows)


def parquet_written(folder: Path, rows: int) -> Sample:
    """Write rows with bodies through Spark's own Parquet sink."""
    return _written("parquet", folder / "by-spark", rows)


def by_column(_folder: Path, rows: int) -> Sample:
    """Find the first rule of every letter, by columns."""
    return first_rules(rows)


def by_udf(_folder: Path, rows: int) -> Sample:
    """Find the first rule of every letter by the handler's matcher, in Python."""
    first = f.udf(_first, "int")
    return metered(rows, lambda: consumed(letters(session(), rows).select(first(*COLUMNS.values()))))


def _journal(folder: Path, *columns: str) -> Any:
    read = session().read.format("mqflow_journal").option("kind", _KIND.value).option("columns", ",".join(columns))
    return read.load(str(folder / "journal"))


def _frame(folder: Path) -> "DataFrame":
    journal = Journal.open(folder / "journal")
    segments = [segment for lane in journal.lanes() for segment in lane.all_segments()]
    return journal_frame(session(), journal, _KIND, segments)


def _written(form: str, path: Path, rows: int) -> Sample:
    number = f.col("id")
    made = (
        session()
        .range(rows, numPartitions=2)
        .select(  # the seven columns of `_SEVEN`
            number,
            f.lit("QM1").alias("qmgr"),
            f.concat(f.lit("APP"), f.pmod(number, f.lit(20)), f.lit(".IN")).alias("queue"),
            f.pmod(number, f.lit(6)).cast("int").alias("reason"),
            f.timestamp_seconds(f.lit(1_767_225_600) + number).alias("put_ts"),
            f.pmod(number, f.lit(5_000)).alias("msg_len"),
            f.repeat(f.sha2(number.cast("string"), 256), 4).alias("body"),
        )
    )
    return metered(rows, lambda: made.write.format(form).mode("append").save(str(path)))


class _Matching:
    """The handler's matcher. Each worker makes the matcher once, because Spark pickles its functions."""

    asking: Sequence[Any] = ()


def _first(*values: Any) -> int | None:
    if not _Matching.asking:
        _Matching.asking = matchers(compile_rules(RULES).rules)
    of = dict(zip(COLUMNS.values(), values, strict=True))
    header = DeadLetterHeader(
        reason=of["dlh_reason"],
        destination_queue=of["dlh_dest_q"],
        destination_queue_manager=of["dlh_dest_qm"],
        format=of["dlh_format"],
    )
    descriptor = MessageDescriptor(
        application_identity_data=of["appl_identity_data"],
        put_application_name=of["put_appl_name"],
        put_application_type=of["put_appl_type"],
        feedback=of["feedback"],
        message_type=of["msg_type"],
        persistence=of["persistence"],
        reply_to_queue=of["reply_q"],
        reply_to_queue_manager=of["reply_qm"],
        user_identifier=of["user_id"],
    )
    letter = DeadLetter(descriptor, header, b"")
    return next((at for at, each in enumerate(_Matching.asking, start=1) if each.matches(letter)), None)


@dataclass(frozen=True)
class _Part(InputPartition):
    segments: tuple[Segment, ...]


class Tuples(DataSource):
    """A source that yields the rows of a journal as tuples."""

    @classmethod
    def name(cls) -> str:
        return "benchmark_tuples"

    def schema(self) -> str:
        return ddl(_KIND)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return _TupleReader(Path(self.options["path"]))


class _TupleReader(DataSourceReader):
    def __init__(self, path: Path) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        segments = [segment for lane in Journal.open(self._path).lanes() for segment in lane.all_segments()]
        return [_Part(part) for part in packed(segments, part_bytes=_PART_BYTES, least=2)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, _Part)
        names = [column.name for column in columns_of(_KIND)]
        for segment in partition.segments:
            for batch in read_batches(segment, _KIND, names):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class RowSink(DataSource):
    """The Delta sink with rows as input."""

    @classmethod
    def name(cls) -> str:
        return "benchmark_rows"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        return _RowWriter(delta._settings(self.options, schema, overwrite=overwrite))  # noqa: SLF001 - same sink, other input


class _RowWriter(DataSourceWriter):
    def __init__(self, asked: Any) -> None:
        self._settings = asked

    def write(self, iterator: Iterator["Row"]) -> WriterCommitMessage:
        return delta._Files(delta._written(self._settings, self._batches(iterator)))  # noqa: SLF001 - as above

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        delta._commit(self._settings, messages)  # noqa: SLF001 - as above

    def _batches(self, rows: Iterator["Row"]) -> Iterator[pa.RecordBatch]:
        schema, unit = arrow_schema_of(self._settings.schema), []
        for row in rows:
            unit.append(row.asDict())
            if len(unit) == _SEGMENT_ROWS // 2:
                yield pa.RecordBatch.from_pylist(unit, schema=schema)
                unit = []
        if unit:
            yield pa.RecordBatch.from_pylist(unit, schema=schema)
