"""Whole segments of a journal as a frame: by Spark's own Parquet scan if Spark reaches the files, else by Python.

The scan reads segments in the JVM, without a Python worker, so it costs half the processor time. The driver first checks the
checksum, the place, the schema version and the link of each segment. This file knows segments; it knows no lane, no offset and
no stream.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from mqflow.folders import Folder
from mqflow.journal import Journal, Kind, Segment, check_segment, columns_of
from mqflow.journal.schemas import ddl
from mqflow.journal.segment_chain import Before
from mqflow.pipeline import parquet_scan
from mqflow.pipeline.payload import FULL, Payload
from mqflow.pipeline.sources.hadoop_folder import HadoopFolder
from mqflow.pipeline.sources.offsets import packed
from mqflow.pipeline.sources.segment_rows import Part, read_bytes, read_part

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ("journal_frame",)

_CHECKED_AT_ONCE: Final = 4
_PART_BYTES: Final = 64 * 1024 * 1024
_SCAN: Final = {
    # No setting of the session may make the scan skip a file, or change a time.
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
}


def journal_frame(
    spark: "SparkSession", journal: Journal, kind: Kind, segments: Sequence[Segment], *, payload: Payload = FULL
) -> DataFrame:
    """Return the rows of these segments, with exactly the columns of `ddl(kind)`.

    Raises `TornSegmentError` for a segment that is damaged, has the name of another segment, or does not fit the segment before
    it. Raises `SchemaError` for a segment of a newer mqflow. Python reads the segments of an older mqflow. Python reads all
    segments if the payload is limited, if Spark does not reach the folder, or if only Spark reaches it.
    """
    befores = _befores(journal, segments)
    names = [segment.uri.removeprefix(journal.folder.uri) for segment in segments]
    if segments and isinstance(journal.folder, HadoopFolder):
        return _read_by_spark(spark, kind, dict(zip(names, segments, strict=True)), befores, payload, journal.folder.uri)
    read = list(segments)
    frames: list[DataFrame] = []
    if segments and payload == FULL and (root := _reached(spark, journal.folder)) is not None:
        with ThreadPoolExecutor(_CHECKED_AT_ONCE) as threads:
            checked = threads.map(lambda segment: check_segment(segment, kind, befores[segment.place]), segments)
            try:
                frames = [_scanned(spark, journal.folder, kind, [root + name for name in names])]  # while the threads check
            finally:
                linked = [contents.link is not None for contents in checked]  # the error of a damaged segment comes first
        read = [segment for segment, is_parquet in zip(segments, linked, strict=True) if not is_parquet]
        if read:
            files = [root + name for name, is_parquet in zip(names, linked, strict=True) if is_parquet]
            frames = [_scanned(spark, journal.folder, kind, files)] if files else []
    if read:
        frames.append(_read(spark, kind, read, payload))
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], ddl(kind))


def _scanned(spark: "SparkSession", folder: Folder, kind: Kind, files: Sequence[str]) -> DataFrame:
    if folder.path is not None:
        return parquet_scan.scanned(spark, ddl(kind), files, _SCAN)
    return spark.read.options(**_SCAN).schema(ddl(kind)).parquet(*map(parquet_scan.escaped, files))


def _befores(journal: Journal, segments: Sequence[Segment]) -> dict[tuple[str, int], Before]:
    found: dict[tuple[str, int], Before] = {}
    for lane in {segment.lane for segment in segments}:
        mine = [segment for segment in segments if segment.lane == lane]
        found |= {(lane, number): before for number, before in journal.lane(lane).befores(mine).items()}
    return found


def _reached(spark: "SparkSession", folder: Folder) -> str | None:
    """Return the URI under which Spark's scan finds the folder; None if the scan cannot find it.

    Executors of a cluster must share a disk to read a journal at all, by the scan or by Python. An object store needs Hadoop's
    s3a with its endpoint and credentials.
    """
    if folder.path is not None:
        return f"file://{folder.path}"
    uri = f"s3a://{folder.uri.partition('://')[2]}"
    try:
        # Any: py4j has no types. PySpark has no other way to Hadoop's file systems.
        context: Any = spark.sparkContext
        jvm = context._jvm  # noqa: SLF001 - as above
        path = jvm.org.apache.hadoop.fs.Path(uri, "journal.json")
        found = path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path)  # noqa: SLF001 - as above
    except (Py4JError, PySparkException):  # no s3a, no access; and Spark Connect has no JVM here
        return None
    return uri if found else None


def _read(spark: "SparkSession", kind: Kind, segments: Sequence[Segment], payload: Payload) -> DataFrame:
    """Return the rows that Python workers read and check."""
    parts = [Part(part) for part in packed(segments, part_bytes=_PART_BYTES, least=2)]
    names = tuple(column.name for column in columns_of(kind))

    def rows(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(parts[number], kind, names, payload)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(rows, ddl(kind))


def _read_by_spark(
    spark: "SparkSession",
    kind: Kind,
    segments: Mapping[str, Segment],
    befores: Mapping[tuple[str, int], Before],
    payload: Payload,
    root: str,
) -> DataFrame:
    """Return the rows of segments whose bytes Spark reads from a Hadoop file system; Python workers check and unpack them."""

    def rows(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            for path, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                segment = segments["/" + "/".join(path.split("/")[-3:])]
                yield from read_bytes(segment, data.as_py(), kind, befores[segment.place], payload)

    files = spark.read.format("binaryFile").options(**_SCAN).load([parquet_scan.escaped(root + name) for name in segments])
    return files.select("path", "content").mapInArrow(rows, ddl(kind))
